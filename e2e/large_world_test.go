package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/stats"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

const largeNamespace = "large"

// largeClusters are the clusters, in the order of the Service's members.
var largeClusters = []string{"west", "east", "north"}

// large is three clusters that have one Service in common, with many meshed endpoints behind it.
type large struct {
	t        *testing.T
	servers  map[string]*harness.Cluster
	clients  map[string]*kube.Client
	gateway  *harness.Replica
	small    map[string]*discoveryv1.EndpointSlice // by cluster: one of 100 endpoints
	slices   int                                   // that there are
	addrs    []netip.AddrPort                      // of all endpoints, in order
	places   map[netip.AddrPort]place
	sizes    sizes
	messages int64 // of the stream, up to now
}

// place is where an endpoint is.
type place struct{ cluster, zone string }

// newLarge starts the clusters, with Pods and a Service that has no endpoints yet.
func newLarge(t *testing.T) *large {
	l := &large{t: t, servers: map[string]*harness.Cluster{}, clients: map[string]*kube.Client{},
		small: map[string]*discoveryv1.EndpointSlice{}, places: map[netip.AddrPort]place{}}
	for _, c := range startClusters(t, []string{"namespace", "serviceaccount"}, largeClusters...) {
		l.servers[c.Name()], l.clients[c.Name()] = c, client(t, c)
	}
	for _, name := range largeClusters {
		l.populate(name)
	}
	l.federate()
	return l
}

// largePods is how many Pods a cluster has. There are several addresses of each where there are more endpoints: so a
// large set takes few writes.
const largePods = 500

// populate makes a cluster's Pods and its share of the Service.
func (l *large) populate(where string) {
	ctx, k := l.t.Context(), l.clients[where]
	must(l.t, k.Apply(ctx, kube.Namespace(largeNamespace), kube.ServiceAccount(largeNamespace, "web"), kube.Service(largeNamespace, "web")))
	pods := make(chan *corev1.Pod)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for p := range pods {
				if err := kube.Create(ctx, k.CoreV1().Pods(largeNamespace), p); err != nil {
					l.t.Error(err)
				}
			}
		})
	}
	for i := range largePods {
		pods <- largePod(i)
	}
	close(pods)
	writers.Wait()
}

// grow adds slices to the clusters in turn until there are n endpoints: 100 in each slice of the first 5,000, and 1,000,
// the most there can be, in each after that.
func (l *large) grow(n int) {
	for ; len(l.addrs) < n; l.slices++ {
		where, size := largeClusters[l.slices%len(largeClusters)], 100
		if len(l.addrs) >= 5000 {
			size = 1000
		}
		slice := kube.Slice(largeNamespace, "web", fmt.Sprintf("%03d", l.slices))
		for i := range size {
			ip := netip.AddrFrom4([4]byte{10, byte(l.slices), byte(i / 250), byte(1 + i%250)})
			zone := where + "-" + string("abc"[i%3])
			endpoint := kube.PodEndpoint(ip.String(), largeNamespace, largePodName((len(l.addrs)+i)%largePods))
			endpoint.Zone = &zone
			slice.Endpoints = append(slice.Endpoints, endpoint)
			l.places[netip.AddrPortFrom(ip, 8080)] = place{where, zone}
		}
		made, err := l.clients[where].DiscoveryV1().EndpointSlices(largeNamespace).Create(l.t.Context(), slice, metav1.CreateOptions{})
		must(l.t, err)
		if size == 100 {
			l.small[where] = made
		}
		l.addrs = slices.SortedFunc(maps.Keys(l.places), netip.AddrPort.Compare)
	}
}

// federate links the clusters to west and makes web of west a Service of them all.
func (l *large) federate() {
	ctx, k := l.t.Context(), l.clients["west"]
	must(l.t, k.Apply(ctx, kube.Namespace(kube.LinkNamespace)))
	for _, remote := range []string{"east", "north"} {
		kubeconfig, err := os.ReadFile(l.servers[remote].Kubeconfig())
		must(l.t, err)
		must(l.t, k.Apply(ctx, kube.Link(remote, kubeconfig)))
	}
	must(l.t, k.Apply(ctx, kube.Federated(largeNamespace, "web-all", "web", "web@east", "web@north")))
}

func largePodName(i int) string { return fmt.Sprintf("web-5f79f964bc-%05d", i) }

func largePod(i int) *corev1.Pod {
	o := kube.Mesh(kube.Pod(largeNamespace, largePodName(i), "web"))
	o.Labels[kube.HashLabel] = "5f79f964bc"
	return o
}

// startGateway runs a gateway beside west, with the flags that Linkerd's charts give.
func (l *large) startGateway() {
	l.gateway = startGateway(l.t, harness.ReplicaConfig{Kubeconfig: l.servers["west"].Kubeconfig(), Args: []string{
		"-outbound-transport-mode=transport-header", "-target-cluster-label=true", "-shutdown-delay=0s", "-drain=0s",
		`-meshed-http2-client-params={"keep_alive":{"interval":{"seconds":10},"timeout":{"seconds":3},"while_idle":true}}`,
	}})
	l.ready()
}

// restartGateway ends the gateway and starts it anew, at the same address.
func (l *large) restartGateway() {
	must(l.t, l.gateway.Restart(l.t.Context()))
	l.ready()
}

// ready waits until the gateway knows all clusters.
func (l *large) ready() {
	await(l.t, "all clusters are ready", func() error {
		page, err := harness.ReadClusters(l.t.Context(), l.gateway.MetricsAddr())
		if err != nil {
			return err
		}
		for _, c := range append(page.Clusters, page.Local) {
			if c.State != "ready" {
				return fmt.Errorf("%q is %s: %s", c.Cluster, c.State, c.Reason)
			}
		}
		return nil
	})
}

// awaitState waits until a stream's state satisfies a condition.
func awaitState(t *testing.T, s *proxy.Stream, what string, holds func(proxy.Snapshot) bool) {
	t.Helper()
	must(t, s.Until(t.Context(), time.Minute, func() error {
		now := s.Snapshot()
		if holds(now) {
			return nil
		}
		if now.Phase != proxy.Open {
			t.Fatalf("waiting for %s: the stream has ended: %v", what, now.Err)
		}
		return fmt.Errorf("%s: %d endpoints, %v", what, now.Get.Len(), s.Recent())
	}))
}

// awaitEnd waits until the server has ended a stream.
func awaitEnd(t *testing.T, s *proxy.Stream) {
	t.Helper()
	must(t, s.Until(t.Context(), time.Minute, func() error {
		if s.Status().Phase == proxy.Open {
			return errors.New("the stream has not ended")
		}
		return nil
	}))
}

// sizes notes how many bytes the messages of a connection have, as encoded.
type sizes struct {
	mu   sync.Mutex
	list []int
}

// take returns what has been noted since the last time.
func (s *sizes) take() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	return list
}

func (s *sizes) HandleRPC(_ context.Context, event stats.RPCStats) {
	if in, ok := event.(*stats.InPayload); ok {
		s.mu.Lock()
		s.list = append(s.list, in.Length)
		s.mu.Unlock()
	}
}

func (s *sizes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (s *sizes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (s *sizes) HandleConn(context.Context, stats.ConnStats)                       {}
