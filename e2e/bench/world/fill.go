package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// writers is how many objects are written to one cluster at a time.
const writers = 8

// Fill writes everything, into clusters that have nothing of it yet, and links them last.
func (w *World) Fill(ctx context.Context, s Scale) error {
	if s.App*s.AppPods != s.Pods() {
		return fmt.Errorf("%d Services of %d Pods do not have as many Pods as %d of %d", s.App, s.AppPods, s.Web, s.WebPods)
	}
	errs := make([]error, len(w.clusters))
	var all sync.WaitGroup
	for i, m := range w.clusters {
		all.Go(func() {
			if err := m.fill(ctx, s); err != nil {
				errs[i] = fmt.Errorf("fill cluster %s: %w", m.name, err)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return w.federate(ctx, s)
}

// fill writes a cluster's own objects.
func (m *member) fill(ctx context.Context, s Scale) error {
	k := m.client
	err := errors.Join(
		create(ctx, k.CoreV1().Namespaces().Create, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}),
		create(ctx, k.CoreV1().ServiceAccounts(Namespace).Create, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}))
	if err != nil {
		return err
	}
	pods := func(i int) error { return create(ctx, k.CoreV1().Pods(Namespace).Create, pod(i, s)) }
	services := func(name func(int) string, share int) func(int) error {
		return func(i int) error {
			return errors.Join(
				create(ctx, k.CoreV1().Services(Namespace).Create, service(name(i), nil)),
				create(ctx, k.DiscoveryV1().EndpointSlices(Namespace).Create, m.slice(name(i), i*share, share, s)))
		}
	}
	return errors.Join(
		each(nodes, func(i int) error { return create(ctx, k.CoreV1().Nodes().Create, nodeObject(i)) }),
		each(s.Web, func(i int) error { return create(ctx, k.AppsV1().ReplicaSets(Namespace).Create, replicaSet(i)) }),
		each(s.Pods(), pods), each(s.Web, services(Web, s.WebPods)), each(s.App, services(App, s.AppPods)))
}

// federate writes into the first cluster what joins all of them.
func (w *World) federate(ctx context.Context, s Scale) error {
	k := w.clusters[0].client
	join := func(name func(int) string) func(int) error {
		return func(i int) error {
			var remote []string
			for _, m := range w.clusters[1:] {
				remote = append(remote, name(i)+"@"+m.name)
			}
			return create(ctx, k.CoreV1().Services(Namespace).Create, service(Federated(name(i)), map[string]string{
				"multicluster.linkerd.io/local-discovery":  name(i),
				"multicluster.linkerd.io/remote-discovery": strings.Join(remote, ","),
			}))
		}
	}
	err := errors.Join(each(s.Web, join(Web)), each(s.App, join(App)),
		create(ctx, k.CoreV1().Namespaces().Create, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "linkerd"}}))
	for _, m := range w.clusters[1:] {
		if err != nil {
			break
		}
		err = m.link(ctx, w.clusters[0])
	}
	if err != nil {
		return fmt.Errorf("federate the clusters: %w", err)
	}
	return nil
}

// link writes the Secret that links a cluster to another.
func (m *member) link(ctx context.Context, to *member) error {
	kubeconfig, err := os.ReadFile(m.kubeconfig)
	if err != nil {
		return err
	}
	return create(ctx, to.client.CoreV1().Secrets("linkerd").Create, Link(m.name, kubeconfig))
}

// Link is the Secret that links a cluster.
func Link(name string, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		Type: "mirror.linkerd.io/remote-kubeconfig",
		Data: map[string][]byte{"kubeconfig": kubeconfig},
		ObjectMeta: metav1.ObjectMeta{
			Name:        "cluster-credentials-" + name,
			Namespace:   "linkerd",
			Labels:      map[string]string{"multicluster.linkerd.io/cluster-name": name},
			Annotations: map[string]string{"multicluster.linkerd.io/trust-domain": "cluster.local", "multicluster.linkerd.io/cluster-domain": "cluster.local"},
		},
	}
}

// slice is the EndpointSlice of a Service with that many Pods from the first on.
func (m *member) slice(name string, first, count int, s Scale) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name + "-x7k2p", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
	}
	for i := first; i < first+count; i++ {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.%d.%d.%d", m.number, i>>8, i&0xff)},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			NodeName:   new(node(i)),
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: Namespace, Name: podName(i, s)},
		})
	}
	return slice
}

// each calls a function for 0 to n-1, some at a time, and returns the first error.
func each(n int, do func(int) error) error {
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		next  int
		first error
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		i := next
		next++
		return i, i < n && first == nil
	}
	for range writers {
		all.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if err := do(i); err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return first
}

func create[T any](ctx context.Context, to func(context.Context, T, metav1.CreateOptions) (T, error), o T) error {
	_, err := to(ctx, o, metav1.CreateOptions{})
	return err
}
