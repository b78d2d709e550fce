package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

const namespace = "shop"

// world contains west, which runs the replicas, and east, which west links.
type world struct {
	west, east *kube.Client
	kubeconfig string // west's administrator
	exports    bool   // whether the replicas write exports
	undo       []func() error
}

func (w *world) later(undo func() error) { w.undo = append(w.undo, undo) }

func (w *world) close() (err error) {
	for _, undo := range slices.Backward(w.undo) {
		err = errors.Join(err, undo())
	}
	return err
}

func (w *world) start(ctx context.Context) error {
	var configs []harness.ClusterConfig
	for _, name := range []string{"west", "east"} {
		configs = append(configs, harness.ClusterConfig{
			Name: name, Dir: filepath.Join(state, name), Binary: filepath.Join(bin, "controlplane"),
			Controllers: []string{"namespace", "serviceaccount", "token"},
		})
	}
	servers, err := harness.StartClusters(ctx, configs...)
	if err != nil {
		return err
	}
	var clients []*kube.Client
	for _, server := range servers {
		w.later(server.Close)
		c, err := kube.NewClient(server.Name(), server.REST())
		if err != nil {
			return err
		}
		w.later(func() error { c.Close(); return nil })
		err = errors.Join(
			c.Apply(ctx, kube.Namespace(kube.LinkNamespace), kube.Namespace(namespace)),
			c.ServeMCS(ctx, kube.MCSVersions...),
		)
		if err != nil {
			return err
		}
		clients = append(clients, c)
	}
	w.west, w.east, w.kubeconfig = clients[0], clients[1], servers[0].Kubeconfig()
	return errors.Join(w.link(ctx), w.export(ctx), w.change(ctx, 0))
}

// link links east with the permissions granted by isthmus link.
func (w *world) link(ctx context.Context) error {
	const account, remote = "isthmus-remote-access", "linkerd-multicluster"
	manifest, err := os.ReadFile("manifests/link/remote-access.yaml")
	if err != nil {
		return err
	}
	if err := w.east.Apply(ctx, kube.Namespace(remote)); err != nil {
		return err
	}
	if err := w.east.ApplyYAML(ctx, string(manifest)); err != nil {
		return err
	}
	token, err := w.east.Token(ctx, remote, account)
	if err != nil {
		return err
	}
	kubeconfig, err := w.east.Kubeconfig(w.east.Server(), clientcmdapi.AuthInfo{Token: token})
	if err != nil {
		return err
	}
	return w.west.Apply(ctx, kube.Link("east", kubeconfig))
}

// export exports the Service web from both clusters and lets west serve ExternalWorkloads.
func (w *world) export(ctx context.Context) error {
	for c, ip := range map[*kube.Client]string{w.west: westAddr(1), w.east: eastAddr(1)} {
		pod, err := meshedPod(ip)
		if err != nil {
			return err
		}
		if err := c.Apply(ctx, kube.ServiceAccount(namespace, "web"), pod); err != nil {
			return err
		}
		const export = "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, " +
			"metadata: {name: web, namespace: %s}}"
		if err := c.ApplyYAML(ctx, fmt.Sprintf(export, namespace)); err != nil {
			return err
		}
	}
	west := kube.Service(namespace, "web")
	west.Labels = map[string]string{"mirror.linkerd.io/federated": "member"}
	if !w.exports {
		err := w.west.Apply(ctx, kube.Federated(namespace, "web-federated", "web", "web@east"),
			kube.Mirror(namespace, "web-east", "east", "web"))
		if err != nil {
			return err
		}
	}
	vm := kube.Service(namespace, "vm")
	vm.Spec.Selector = map[string]string{"app": "vm"}
	vm.Spec.Ports[0].TargetPort = intstr.FromInt32(kube.Port)
	return w.west.Apply(ctx, west, vm, workload("vm-1", westAddr(100)))
}

// meshedPod returns a running Pod with a proxy, so that its endpoints have an identity, labels and
// a protocol hint, and its address has a profile.
func meshedPod(ip string) (*unstructured.Unstructured, error) {
	pod, err := kube.Unstructured(kube.Mesh(kube.Pod(namespace, "web-0", "web")))
	if err != nil {
		return nil, err
	}
	pod.Object["status"] = map[string]any{
		"phase": "Running", "podIP": ip, "podIPs": []any{map[string]any{"ip": ip}},
	}
	return pod, nil
}

// change changes a label of east's Service, an endpoint of each Service, and an ExternalWorkload.
// The new values depend on the number.
func (w *world) change(ctx context.Context, number int) error {
	east := kube.Service(namespace, "web")
	east.Labels = map[string]string{
		"mirror.linkerd.io/exported": "remote-discovery", "mirror.linkerd.io/federated": "member",
		"team": fmt.Sprint("team-", number),
	}
	return errors.Join(
		w.west.Apply(ctx, slice(westAddr, number), workload("vm-2", westAddr(101+number))),
		w.east.Apply(ctx, east, slice(eastAddr, number)),
	)
}

func westAddr(host int) string { return fmt.Sprint("10.134.0.", host) }
func eastAddr(host int) string { return fmt.Sprint("10.136.0.", host) }

// slice returns a slice with two endpoints: one that stays, with a Pod, and one that depends on the
// number.
func slice(addr func(int) string, number int) *discoveryv1.EndpointSlice {
	return kube.Slice(namespace, "web", "1",
		kube.PodEndpoint(addr(1), namespace, "web-0"), kube.Endpoint(addr(2+number)))
}

func workload(name, ip string) *unstructured.Unstructured {
	o := kube.ExternalWorkload(namespace, name, ip)
	o.SetLabels(map[string]string{"app": "vm"})
	return o
}
