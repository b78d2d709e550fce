package world

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"
	discoveryv1 "k8s.io/api/discovery/v1"

	"isthmus/e2e/kube"
	"isthmus/e2e/object"
)

// writers is how many objects are written to one cluster at a time.
const writers = 8

// Fill writes everything, into clusters that have nothing of it yet, and links them last.
func (w *World) Fill(ctx context.Context, s Scale) error {
	if s.App*s.AppPods != s.Pods() {
		return fmt.Errorf("%d Services of %d Pods do not have as many Pods as %d of %d", s.App, s.AppPods, s.Web, s.WebPods)
	}
	var all errgroup.Group
	for _, m := range w.clusters {
		all.Go(func() error {
			if err := m.fill(ctx, s); err != nil {
				return fmt.Errorf("fill cluster %s: %w", m.name, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return w.federate(ctx, s)
}

// fill writes a cluster's own objects.
func (m *member) fill(ctx context.Context, s Scale) error {
	k := m.client
	err := errors.Join(
		kube.Create(ctx, k.CoreV1().Namespaces(), object.Namespace(Namespace)),
		kube.Create(ctx, k.CoreV1().ServiceAccounts(Namespace), object.ServiceAccount(Namespace, account)))
	if err != nil {
		return err
	}
	services := func(name func(int) string, share int) func(int) error {
		return func(i int) error {
			return errors.Join(
				kube.Create(ctx, k.CoreV1().Services(Namespace), object.Service(Namespace, name(i))),
				kube.Create(ctx, k.DiscoveryV1().EndpointSlices(Namespace), m.slice(name(i), i*share, share, s)))
		}
	}
	return errors.Join(
		each(nodes, func(i int) error { return kube.Create(ctx, k.CoreV1().Nodes(), nodeObject(i)) }),
		each(s.Web, func(i int) error { return kube.Create(ctx, k.AppsV1().ReplicaSets(Namespace), replicaSet(i)) }),
		each(s.Pods(), func(i int) error { return kube.Create(ctx, k.CoreV1().Pods(Namespace), pod(i, s)) }),
		each(s.Web, services(Web, s.WebPods)), each(s.App, services(App, s.AppPods)))
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
			return kube.Create(ctx, k.CoreV1().Services(Namespace), object.Federated(Namespace, Federated(name(i)), name(i), remote...))
		}
	}
	err := errors.Join(each(s.Web, join(Web)), each(s.App, join(App)),
		kube.Create(ctx, k.CoreV1().Namespaces(), object.Namespace(object.LinkNamespace)))
	for _, m := range w.clusters[1:] {
		kubeconfig, readErr := os.ReadFile(m.kubeconfig)
		if err = errors.Join(err, readErr); err != nil {
			break
		}
		err = kube.Create(ctx, k.CoreV1().Secrets(object.LinkNamespace), object.Link(m.name, kubeconfig))
	}
	if err != nil {
		return fmt.Errorf("federate the clusters: %w", err)
	}
	return nil
}

// slice is the EndpointSlice of a Service with that many Pods from the first on.
func (m *member) slice(name string, first, count int, s Scale) *discoveryv1.EndpointSlice {
	slice := object.Slice(Namespace, name, "x7k2p")
	for i := first; i < first+count; i++ {
		endpoint := object.PodEndpoint(fmt.Sprintf("10.%d.%d.%d", m.number, i>>8, i&0xff), Namespace, podName(i, s))
		endpoint.NodeName = new(node(i))
		slice.Endpoints = append(slice.Endpoints, endpoint)
	}
	return slice
}

// each calls a function for 0 to n-1, some at a time, and returns the first error.
func each(n int, do func(int) error) error {
	var all errgroup.Group
	all.SetLimit(writers)
	for i := range n {
		all.Go(func() error { return do(i) })
	}
	return all.Wait()
}
