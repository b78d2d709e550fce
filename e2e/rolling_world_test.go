package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/cluster"
	"isthmus/e2e/kube"
	"isthmus/e2e/object"
	"isthmus/e2e/pulse"
)

const (
	// rollingRhythm is the time between two changes, of which one in rollingProfiles changes the ServiceProfiles too.
	rollingRhythm   = 250 * time.Millisecond
	rollingProfiles = 4
)

// rollingClusters are the clusters with endpoints: those of 10.ID.0.0 stay, each of 10.ID+1.0.0 is there until the next change.
var rollingClusters = []struct {
	name string
	id   byte
}{{"west", 10}, {"east", 20}}

// staying returns the endpoints of a cluster that are there all the time.
func staying(id byte) (all []netip.AddrPort) {
	for i := range byte(3) {
		all = append(all, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, id, 0, i + 1}), object.Port))
	}
	return all
}

// passing returns the endpoint of a cluster that stands for a change.
func passing(id byte, n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, id + 1, byte(n / 250), byte(n%250 + 1)}), object.Port)
}

// changeOf returns which change an endpoint stands for, and the cluster's id; -1: none.
func changeOf(a netip.AddrPort) (id byte, n int) {
	b := a.Addr().As4()
	if b[1]%10 == 0 {
		return b[1], -1
	}
	return b[1] - 1, int(b[2])*250 + int(b[3]) - 1
}

// rolling is two linked clusters whose endpoints change all the time.
type rolling struct {
	servers map[string]*cluster.Cluster
	clients map[string]*kube.Client
	pulse   pulse.Pulse

	mu      sync.Mutex
	changes []time.Time // when the API servers had each
	failed  error       // why there are no more
}

// newRolling starts the clusters, with Services for proxies of all kinds. The gateways' namespaces are linked to east.
func newRolling(t *testing.T, namespaces ...*corev1.Namespace) *rolling {
	t.Helper()
	ctx := t.Context()
	w := &rolling{servers: map[string]*cluster.Cluster{}, clients: map[string]*kube.Client{}}
	controllers := []string{"namespace", "serviceaccount", "token", "endpointslice", "deployment", "replicaset", "disruption"}
	for _, c := range startClusters(t, controllers, "west", "east") {
		w.servers[c.Name()], w.clients[c.Name()] = c, client(t, c)
		must(t, w.clients[c.Name()].Apply(ctx, object.Namespace("shop"), object.Service("shop", "web")))
	}
	west, east := w.clients["west"], w.clients["east"]
	for i := range rollingNodes {
		must(t, west.Apply(ctx, object.Node(rollingNodes[i], "zone-1")))
	}
	steered, spilled := object.Federated("shop", "web-steered", "web", "web@east"), object.Federated("shop", "web-spilled", "web", "web@east")
	steered.Annotations["isthmus.io/prefer"], spilled.Annotations["isthmus.io/prefer"] = "local, any", "local, any"
	spilled.Annotations["isthmus.io/min-ready"] = "100"
	must(t, west.Apply(ctx, object.Federated("shop", "web-federated", "web", "web@east"), steered, spilled))
	must(t, east.Apply(ctx, object.Namespace("linkerd-multicluster")))
	apply(t, east, build(t, manifest(t, "link")))
	kubeconfig, err := east.Kubeconfig(east.Server(), clientcmdapi.AuthInfo{Token: secretToken(t, east, "linkerd-multicluster", "isthmus-remote-access-token")})
	must(t, err)
	for _, namespace := range namespaces {
		link := object.Link("east", kubeconfig)
		link.Namespace = namespace.Name
		must(t, west.Apply(ctx, namespace, link))
	}
	must(t, w.change(ctx))
	w.keepChanging(t)
	return w
}

// keepChanging makes changes until the test ends. An API server of a busy machine may fail now and then, but not for a minute.
func (w *rolling) keepChanging(t *testing.T) {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { w.pulse.Run(ctx) })
	running.Go(func() {
		tick := time.NewTicker(rollingRhythm)
		defer tick.Stop()
		last := time.Now() // when all went well
		for ctx.Err() == nil && w.failed == nil {
			select {
			case <-ctx.Done():
			case <-tick.C:
				switch err := w.change(ctx); {
				case err == nil:
					last = time.Now()
				case ctx.Err() == nil && time.Since(last) > time.Minute:
					w.failed = err
				}
			}
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		must(t, w.failed)
	})
}

// change makes the next change in both clusters.
func (w *rolling) change(ctx context.Context) error {
	n := len(w.made())
	for _, c := range rollingClusters {
		slice := object.Slice("shop", "web", "1")
		for _, a := range append(staying(c.id), passing(c.id, n)) {
			slice.Endpoints = append(slice.Endpoints, object.Endpoint(a.Addr().String()))
		}
		if _, err := kube.Put[*discoveryv1.EndpointSlice](ctx, w.clients[c.name].DiscoveryV1().EndpointSlices("shop"), slice); err != nil {
			return fmt.Errorf("change %d: %w", n, err)
		}
	}
	if n%rollingProfiles == 0 {
		for _, service := range []string{"web", "web-federated"} {
			route := map[string]any{"name": fmt.Sprint(n), "condition": map[string]any{"method": "GET"}}
			if err := w.clients["west"].Apply(ctx, object.ServiceProfile("shop", service, route)); err != nil {
				return fmt.Errorf("change %d: %w", n, err)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = append(w.changes, time.Now())
	return nil
}

// made returns when the changes were made.
func (w *rolling) made() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clip(w.changes)
}

// staleness returns for how long an endpoint has been deleted at some moment.
func (w *rolling) staleness(a netip.AddrPort, at time.Time) time.Duration {
	_, n := changeOf(a)
	made := w.made()
	if n < 0 || n+1 >= len(made) || made[n+1].After(at) {
		return 0
	}
	return w.pulse.Between(made[n+1], at)
}
