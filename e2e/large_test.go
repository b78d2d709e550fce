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

// largeClusters lists the clusters in the order of the Service's members.
var largeClusters = []string{"west", "east", "north"}

// large consists of three clusters with a common Service that has many meshed endpoints.
type large struct {
	t        *testing.T
	servers  map[string]*harness.Cluster
	clients  map[string]*kube.Client
	gateway  *harness.Replica
	small    map[string]*discoveryv1.EndpointSlice // a slice of 100 endpoints by cluster
	slices   int                                   // number of slices
	addrs    []netip.AddrPort                      // addresses of all endpoints in order
	places   map[netip.AddrPort]place
	sizes    sizes
	messages int64 // number of messages on the stream so far
}

type place struct{ cluster, zone string }

// newLarge starts the clusters with Pods and with a Service that has no endpoints.
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

// largePods is the number of Pods per cluster. Each Pod can have several addresses, so that a large
// set needs few writes.
const largePods = 500

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

// grow adds slices to the clusters in turn until there are n endpoints. The first 5,000 are in
// slices of 100, and the others in slices of 1,000, the maximum.
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

// federate links the clusters to west and makes all web Services members of a federated Service.
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

// startGateway starts a replica in west with the flags from Linkerd's charts.
func (l *large) startGateway() {
	l.gateway = startGateway(l.t, harness.ReplicaConfig{Kubeconfig: l.servers["west"].Kubeconfig(), Args: []string{
		"-outbound-transport-mode=transport-header", "-target-cluster-label=true", "-shutdown-delay=0s", "-drain=0s",
		`-meshed-http2-client-params={"keep_alive":{"interval":{"seconds":10},"timeout":{"seconds":3},` +
			`"while_idle":true}}`,
	}})
	l.ready()
}

func (l *large) restartGateway() {
	must(l.t, l.gateway.Restart(l.t.Context()))
	l.ready()
}

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

func awaitState(t *testing.T, s *proxy.Stream, what string, holds func(proxy.Snapshot) bool) {
	t.Helper()
	must(t, s.Until(t.Context(), time.Minute, func() error {
		now := s.Snapshot()
		if holds(now) {
			return nil
		}
		if now.Phase != proxy.Open {
			t.Fatalf("waiting for %s: the stream ended: %v", what, now.Err)
		}
		return fmt.Errorf("%s: %d endpoints, %v", what, now.Get.Len(), s.Recent())
	}))
}

func awaitEnd(t *testing.T, s *proxy.Stream) {
	t.Helper()
	must(t, s.Until(t.Context(), time.Minute, func() error {
		if s.Status().Phase == proxy.Open {
			return errors.New("the stream has not ended")
		}
		return nil
	}))
}

// sizes records the sizes of the encoded messages on a connection.
type sizes struct {
	mu   sync.Mutex
	list []int
}

// take returns the sizes recorded since the last call.
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

// maxMessage is the maximum size of a message from Isthmus. Proxies accept up to 4 MiB.
const maxMessage = 4<<20 - 16<<10

// TestLargeSet serves thousands of meshed endpoints in three clusters as one federated Service. A
// change to one endpoint must cause one small message. When a proxy reconnects after a restart of
// the replica, it must keep all endpoints that fit into the first message, which are all of 5,000
// and of 15,000. Of 40,000 endpoints, it must keep the same share for each cluster and zone, and
// the same endpoints after each restart. It must receive the remaining endpoints immediately
// afterwards.
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
			t.Errorf("a reconnecting proxy with %d endpoints loses %d, those of %v", n, len(lost), l.count(lost))
		}
		if n > 15_000 {
			l.fair(lost)
			if again := l.reconnect(s); !slices.Equal(again, lost) {
				t.Errorf("after the second restart, other endpoints are lost: %d, previously %d", len(again), len(lost))
			}
		}
	}
	for _, fault := range s.Snapshot().Faults {
		t.Error(fault)
	}
}

// open opens the stream and waits until all endpoints have been received. It checks the sizes of
// the messages.
func (l *large) open(s *proxy.Stream) {
	l.t.Helper()
	l.sizes.take()
	before := s.Status().Messages
	if err := s.Open(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	// A reconnecting stream keeps its state until the first message, so the test must wait for that
	// message too.
	awaitState(l.t, s, "a message", func(now proxy.Snapshot) bool { return now.Messages > before })
	l.awaitAll(s)
	sizes, status := l.sizes.take(), s.Status()
	l.messages = status.Messages
	in := len(status.First.Addrs)
	l.t.Logf(
		"%d endpoints in messages of %d bytes, the first with %d endpoints after %v, all after %v; %d bytes for "+
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
			l.t.Errorf("message %d has %d bytes: too many, or too few before the last message", i, size)
		}
	}
	for _, m := range s.Recent()[max(0, len(s.Recent())-len(sizes)):] {
		if m.Kind != "add" {
			l.t.Errorf("not an add: %v", m)
		}
	}
}

func (l *large) awaitAll(s *proxy.Stream) {
	l.t.Helper()
	awaitState(l.t, s, "all endpoints", func(now proxy.Snapshot) bool {
		return now.Get.Len() == len(l.addrs) && slices.Equal(now.Get.Addrs(), l.addrs)
	})
}

// reconnect restarts the replica while a proxy has all endpoints. It returns the endpoints that the
// proxy lost, in order.
func (l *large) reconnect(s *proxy.Stream) []netip.AddrPort {
	l.t.Helper()
	s.Mark()
	l.restartGateway()
	awaitEnd(l.t, s)
	l.open(s)
	lost := s.Lost()
	l.t.Logf("%d endpoints: %d lost at the reconnect", len(l.addrs), len(lost))
	return lost
}

// fair checks that each zone of each cluster lost the same share of endpoints, and that the total
// matches the maximum size of a message.
func (l *large) fair(lost []netip.AddrPort) {
	l.t.Helper()
	all, gone := l.count(l.addrs), l.count(lost)
	const due = 21_221 // of 40,000; depends slightly on the lengths of addresses and names
	if len(lost) < due*97/100 || len(lost) > due*103/100 {
		l.t.Errorf("%d of %d endpoints are lost, want about %d", len(lost), len(l.addrs), due)
	}
	for where, n := range all {
		due := n * len(lost) / len(l.addrs)
		if most := len(all) + 1; gone[where] < due-most || gone[where] > due+most {
			l.t.Errorf("%v lost %d of %d, %d would be its share of %d", where, gone[where], n, due, len(lost))
		}
	}
}

func (l *large) count(addrs []netip.AddrPort) map[place]int {
	n := map[place]int{}
	for _, a := range addrs {
		n[l.places[a]]++
	}
	return n
}

// flip removes and restores an endpoint in a cluster. Each change must cause one message and affect
// no other endpoint.
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
		l.messages++ // an additional message fails the next step at the latest
		if n := s.Status().Messages; n != l.messages || len(sizes) != 1 || sizes[0] > x.most || last.Kind != x.kind ||
			!slices.Equal(last.Addrs, []netip.AddrPort{flipped}) {
			l.t.Errorf("%s: %d messages, want %d; of %d bytes, the last is %v", where, n, l.messages, sizes, last)
		}
	}
	l.small[where] = slice
	stayed := slices.DeleteFunc(slices.Clone(l.addrs), func(a netip.AddrPort) bool { return a == flipped })
	if err := s.Flapped(stayed...); err != nil {
		l.t.Error(err)
	}
	s.Mark()
}

// proxyMessage is the maximum size of a message that a proxy can read.
const proxyMessage = 4 << 20

// TestLargeServiceProfiles uses ServiceProfiles of almost the maximum size in Kubernetes. A proxy
// must receive the whole profile in one message that it can read. A proxy that does not read must
// not delay others, and must finally receive the newest profile. A Service whose profile has the
// maximum number of parts must still get a profile.
func TestLargeServiceProfiles(t *testing.T) {
	t.Parallel()
	p := newProfiles(t)
	const routes = 4500
	large := p.subscribe("large")
	p.write("large", manyRoutes(routes, "first"))
	awaitState(t, large, "all routes", func(now proxy.Snapshot) bool { return firstRoute(now, routes) == "first" })
	if sizes := p.sizes.take(); sizes[len(sizes)-1] < 1<<20 {
		t.Errorf("messages of %d bytes: the profile is too small for the test", sizes)
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

// firstRoute returns the name of the first route, or "" if the number of routes differs from count.
func firstRoute(now proxy.Snapshot, count int) string {
	if routes := now.Profile.Profile().GetRoutes(); len(routes) == count {
		return routes[0].GetMetricsLabels()["route"]
	}
	return ""
}

// profiles is a cluster with a replica, and with Services that have ServiceProfiles.
type profiles struct {
	t      *testing.T
	client *kube.Client
	addr   string // address of the replica
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

func (p *profiles) write(service string, spec map[string]any) {
	p.t.Helper()
	o := kube.ServiceProfile(largeNamespace, service)
	o.Object["spec"] = spec
	must(p.t, p.client.Apply(p.t.Context(), o))
}

// subscribe opens a stream for a Service's profile and waits for the profile. Each stream has its
// own connection, so that a stalled stream does not delay others.
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
