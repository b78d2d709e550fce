package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
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
	must(l.t, k.Apply(
		ctx,
		kube.Namespace(largeNamespace),
		kube.ServiceAccount(largeNamespace, "web"),
		kube.Service(largeNamespace, "web"),
	))
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

// grow adds slices to the clusters in turn until there are n endpoints: 100 in each slice of the
// first 5,000, and 1,000, the most there can be, in each after that.
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
		made, err := l.clients[where].DiscoveryV1().
			EndpointSlices(largeNamespace).
			Create(l.t.Context(), slice, metav1.CreateOptions{})
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
		`-meshed-http2-client-params={"keep_alive":{"interval":{"seconds":10},"timeout":{"seconds":3},` +
			`"while_idle":true}}`,
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

// maxMessage is how large the gateway lets a message become: proxies take 4 MiB.
const maxMessage = 4<<20 - 16<<10

// TestLargeSet serves thousands of meshed endpoints as one federated Service over three clusters.
// One endpoint's change is one small message. A proxy that reconnects after a restart of the
// gateway loses what its first message has no room for, and nothing of a set that fits: it gets
// 5,000 and 15,000 endpoints in one message. Of 40,000 it keeps what fits, of each cluster and zone
// the same share, and the same endpoints after each restart; it has all again at once.
func TestLargeSet(t *testing.T) {
	t.Parallel()
	l := newLarge(t)
	l.grow(5000)
	l.startGateway()
	conn, err := proxy.Dial(l.gateway.Addr(), grpc.WithStatsHandler(&l.sizes))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s := proxy.NewStream(proxy.Config{
		Conn:      conn,
		MayBeLate: true,
		Kind:      proxy.Get,
		Authority: kube.Authority(largeNamespace, "web-all"),
	})
	t.Cleanup(s.Close)
	l.open(s)
	s.Mark()
	for _, where := range largeClusters {
		l.flip(s, where)
	}

	for _, n := range []int{5000, 15_000, 40_000} {
		l.grow(n)
		l.awaitAll(s)
		lost := l.reconnect(s)
		if n <= 15_000 && len(lost) > 0 {
			t.Errorf("a proxy with %d endpoints that reconnects loses %d, those of %v", n, len(lost), l.count(lost))
		}
		if n > 15_000 {
			l.fair(lost)
			if again := l.reconnect(s); !slices.Equal(again, lost) {
				t.Errorf("after the second restart other endpoints are lost: %d, before %d", len(again), len(lost))
			}
		}
	}
	for _, fault := range s.Snapshot().Faults {
		t.Error(fault)
	}
}

// open subscribes and returns when all endpoints are there. It checks the messages' sizes.
func (l *large) open(s *proxy.Stream) {
	l.t.Helper()
	l.sizes.take()
	before := s.Status().Messages
	if err := s.Open(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	// The state of a call before stays until the first message, so wait for that too.
	awaitState(l.t, s, "a message", func(now proxy.Snapshot) bool { return now.Messages > before })
	l.awaitAll(s)
	sizes, status := l.sizes.take(), s.Status()
	l.messages = status.Messages
	in := len(status.First.Addrs)
	l.t.Logf(
		"%d endpoints came as messages of %d bytes, the first with %d endpoints after %v, all after %v; %d bytes for "+
			"each endpoint",
		len(l.addrs),
		sizes,
		in,
		status.First.At.Sub(status.Opened),
		time.Since(status.Opened),
		sizes[0]/in,
	)
	for i, size := range sizes {
		if size > maxMessage || i < len(sizes)-1 && size < maxMessage-1024 {
			l.t.Errorf("message %d has %d bytes: too many, or too few for one that is not the last", i, size)
		}
	}
	for _, m := range s.Recent()[max(0, len(s.Recent())-len(sizes)):] {
		if m.Kind != "add" {
			l.t.Errorf("not an add: %v", m)
		}
	}
}

// awaitAll returns when all endpoints are there.
func (l *large) awaitAll(s *proxy.Stream) {
	l.t.Helper()
	awaitState(l.t, s, "all endpoints", func(now proxy.Snapshot) bool {
		return now.Get.Len() == len(l.addrs) && slices.Equal(now.Get.Addrs(), l.addrs)
	})
}

// reconnect restarts the gateway under a proxy that has all endpoints, and returns which of them it lost, in order.
func (l *large) reconnect(s *proxy.Stream) []netip.AddrPort {
	l.t.Helper()
	s.Mark()
	l.restartGateway()
	awaitEnd(l.t, s)
	l.open(s)
	lost := s.Lost()
	l.t.Logf("%d endpoints: %d dropped at the reconnect", len(l.addrs), len(lost))
	return lost
}

// fair checks that every cluster, and every zone of it, has lost as large a part as all together,
// and that these are the ones which one message has no room for.
func (l *large) fair(lost []netip.AddrPort) {
	l.t.Helper()
	all, gone := l.count(l.addrs), l.count(lost)
	const due = 21_221 // of 40,000; the lengths of addresses and names change it by a little
	if len(lost) < due*97/100 || len(lost) > due*103/100 {
		l.t.Errorf("%d of %d endpoints are lost, not about %d", len(lost), len(l.addrs), due)
	}
	for where, n := range all {
		due := n * len(lost) / len(l.addrs)
		if most := len(all) + 1; gone[where] < due-most || gone[where] > due+most {
			l.t.Errorf("%v lost %d of %d, %d would be its share of %d", where, gone[where], n, due, len(lost))
		}
	}
}

// count returns how many of the addresses are in each zone.
func (l *large) count(addrs []netip.AddrPort) map[place]int {
	n := map[place]int{}
	for _, a := range addrs {
		n[l.places[a]]++
	}
	return n
}

// flip takes one endpoint of a cluster away and brings it back, each by one message, and no other is touched.
func (l *large) flip(s *proxy.Stream, where string) {
	l.t.Helper()
	slice, of := l.small[where], l.clients[where].DiscoveryV1().EndpointSlices(largeNamespace)
	flipped := netip.MustParseAddrPort(slice.Endpoints[42].Addresses[0] + ":8080")
	for _, x := range []struct {
		ready bool
		kind  string
		most  int
	}{{false, "remove", 32}, {true, "add", 1024}} {
		slice.Endpoints[42].Conditions.Ready = &x.ready
		var err error
		if slice, err = of.Update(l.t.Context(), slice, metav1.UpdateOptions{}); err != nil {
			l.t.Fatal(err)
		}
		awaitState(l.t, s, x.kind, func(now proxy.Snapshot) bool { return now.Get.Has(flipped) == x.ready })
		sizes, recent := l.sizes.take(), s.Recent()
		last := recent[len(recent)-1]
		l.messages++ // one too many shows at the next step at the latest
		if n := s.Status().Messages; n != l.messages || len(sizes) != 1 || sizes[0] > x.most || last.Kind != x.kind ||
			!slices.Equal(last.Addrs, []netip.AddrPort{flipped}) {
			l.t.Errorf("%s: %d messages, not %d; of %d bytes, the last is %v", where, n, l.messages, sizes, last)
		}
	}
	l.small[where] = slice
	stayed := slices.DeleteFunc(slices.Clone(l.addrs), func(a netip.AddrPort) bool { return a == flipped })
	if err := s.Flapped(stayed...); err != nil {
		l.t.Error(err)
	}
	s.Mark()
}

// proxyMessage is how large a message may be for a proxy to read it.
const proxyMessage = 4 << 20

// TestLargeServiceProfiles: ServiceProfiles about as large as Kubernetes keeps them. One reaches a
// proxy whole, in a message that it can read; a proxy that does not read it delays no other, and
// gets the newest in the end; one that has as many parts as fit into it leaves its Service some
// profile at least.
func TestLargeServiceProfiles(t *testing.T) {
	t.Parallel()
	p := newProfiles(t)
	const routes = 4500
	large := p.subscribe("large")
	p.write("large", manyRoutes(routes, "first"))
	awaitState(t, large, "all routes", func(now proxy.Snapshot) bool { return firstRoute(now, routes) == "first" })
	if sizes := p.sizes.take(); sizes[len(sizes)-1] < 1<<20 {
		t.Errorf("messages of %d bytes: too small a profile to prove anything", sizes)
	}

	other := p.subscribe("other")
	large.Stall()
	for i := range 3 {
		name := fmt.Sprint("change ", i)
		p.write("large", manyRoutes(routes, name))
		p.write("other", manyRoutes(1, name))
		awaitState(t, other, name, func(now proxy.Snapshot) bool { return firstRoute(now, 1) == name })
	}
	p.write("large", manyRoutes(1, "last"))
	large.Unstall()
	awaitState(t, large, "the newest profile", func(now proxy.Snapshot) bool { return firstRoute(now, 1) == "last" })

	p.write("dense", map[string]any{
		"routes": []any{
			map[string]any{"condition": map[string]any{"any": manyOf(80_000, map[string]any{"method": "G"})}},
		},
	})
	p.write("other", manyRoutes(1, "after the dense one"))
	awaitState(
		t,
		other,
		"a change after it",
		func(now proxy.Snapshot) bool { return firstRoute(now, 1) == "after the dense one" },
	)
	dense := p.subscribe("dense")
	for _, size := range p.sizes.take() {
		if size > proxyMessage {
			t.Errorf("a message of %d bytes", size)
		}
	}
	for _, s := range []*proxy.Stream{large, other, dense} {
		if now := s.Snapshot(); len(now.Faults) > 0 || now.Phase != proxy.Open {
			t.Errorf("%v, ended with %v", now.Faults, now.Err)
		}
	}
}

// manyRoutes is a spec with as many routes of 300 bytes, the first of which has a name of its own.
func manyRoutes(count int, first string) map[string]any {
	path := "/" + strings.Repeat("0123456789", 22)
	routes := manyOf(
		count,
		map[string]any{"name": "route", "condition": map[string]any{"pathRegex": path}, "timeout": "250ms"},
	)
	routes[0] = map[string]any{"name": first, "condition": map[string]any{"pathRegex": path}}
	return map[string]any{"routes": routes}
}

func manyOf(count int, what map[string]any) []any {
	all := make([]any, count)
	for i := range all {
		all[i] = what
	}
	return all
}

// firstRoute returns the name of the first of so many routes; empty: they are more, or fewer.
func firstRoute(now proxy.Snapshot, count int) string {
	if routes := now.Profile.Profile().GetRoutes(); len(routes) == count {
		return routes[0].GetMetricsLabels()["route"]
	}
	return ""
}

// profiles is one cluster, with Services that have ServiceProfiles, and a gateway.
type profiles struct {
	t      *testing.T
	client *kube.Client
	addr   string // of the gateway
	sizes  sizes
}

func newProfiles(t *testing.T) *profiles {
	ctx := t.Context()
	c := startClusters(t, []string{"namespace"}, "west")[0]
	p := &profiles{t: t, client: client(t, c)}
	must(t, p.client.Apply(ctx, kube.Namespace(kube.LinkNamespace), kube.Namespace(largeNamespace)))
	for _, name := range []string{"large", "other", "dense"} {
		must(t, p.client.Apply(ctx, kube.Service(largeNamespace, name)))
	}
	p.addr = startGateway(t, harness.ReplicaConfig{Kubeconfig: c.Kubeconfig()}).Addr()
	return p
}

// write creates the ServiceProfile of a Service, or replaces it.
func (p *profiles) write(service string, spec map[string]any) {
	p.t.Helper()
	o := kube.ServiceProfile(largeNamespace, service)
	o.Object["spec"] = spec
	must(p.t, p.client.Apply(p.t.Context(), o))
}

// subscribe returns a stream of a Service's profile once it has one. It has a connection of its
// own, so that one that does not read delays no other.
func (p *profiles) subscribe(service string) *proxy.Stream {
	p.t.Helper()
	conn, err := proxy.Dial(p.addr, grpc.WithStatsHandler(&p.sizes))
	must(p.t, err)
	atEnd(p.t, conn.Close)
	s := proxy.NewStream(
		proxy.Config{
			Conn:      conn,
			MayBeLate: true,
			Kind:      proxy.GetProfile,
			Authority: kube.Authority(largeNamespace, service),
		},
	)
	p.t.Cleanup(s.Close)
	must(p.t, s.Open(p.t.Context()))
	awaitState(p.t, s, "a profile of "+service, func(now proxy.Snapshot) bool { return now.Messages > 0 })
	return s
}
