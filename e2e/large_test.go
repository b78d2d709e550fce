package e2e

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/proxy"
)

// maxMessage is how large the gateway lets a message become.
const maxMessage = 2 << 20

// TestLargeSet serves 5,000 meshed pods in 50 slices as one federated Service over three clusters. It begins with
// several messages of 2 MiB at most and the whole set; one endpoint's change is one small message; and who reconnects
// gets all again at once.
func TestLargeSet(t *testing.T) {
	l := newLarge(t)
	conn, err := proxy.Dial(l.startGateway(), grpc.WithStatsHandler(&l.sizes))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s := proxy.NewStream(proxy.Config{Conn: conn, Kind: proxy.Get, Authority: "web-all." + largeNamespace + ".svc.cluster.local:80"})
	t.Cleanup(s.Close)

	opening := l.open(s)
	s.Mark()
	for _, set := range []string{"west", "east", "north"} {
		l.flip(s, set)
	}
	s.Close()
	if again := l.open(s); !slices.Equal(again, opening) {
		t.Errorf("the second opening has messages of %d bytes, the first had %d", again, opening)
	}
	if faults := s.Snapshot().Faults; len(faults) > 0 {
		t.Error(faults)
	}
}

// open subscribes and returns the sizes of the messages until all endpoints are there.
func (l *large) open(s *proxy.Stream) []int {
	l.t.Helper()
	l.sizes.take()
	before, began := s.Snapshot().Messages, time.Now()
	if err := s.Open(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	// The state of a call before stays until the first message, so wait for that too.
	awaitState(l.t, s, "all endpoints", func(now proxy.Snapshot) bool {
		return now.Messages > before && slices.Equal(now.Get.Addrs(), l.addrs)
	})
	took := time.Since(began)
	l.quiet(s)
	sizes := l.sizes.take()
	l.t.Logf("%d endpoints came as messages of %d bytes within %v", len(l.addrs), sizes, took)
	if len(sizes) < 2 {
		l.t.Errorf("one message of %d bytes: too small a set to prove anything", sizes)
	}
	for i, size := range sizes {
		if size > maxMessage || i < len(sizes)-1 && size < maxMessage-4096 {
			l.t.Errorf("message %d has %d bytes: too many, or too few for one that is not the last", i, size)
		}
	}
	for _, m := range s.Recent()[max(0, len(s.Recent())-len(sizes)):] {
		if m.Kind != "add" {
			l.t.Errorf("not an add: %v", m)
		}
	}
	return sizes
}

// flip takes one endpoint of a cluster away and brings it back, each by one message, and no other is touched.
func (l *large) flip(s *proxy.Stream, where string) {
	l.t.Helper()
	slice, of := l.slices[where][3], l.clients[where].DiscoveryV1().EndpointSlices(largeNamespace)
	flipped := netip.MustParseAddrPort(slice.Endpoints[42].Addresses[0] + ":8080")
	for _, x := range []struct {
		ready bool
		kind  string
		most  int
	}{{false, "remove", 32}, {true, "add", 1024}} {
		before := s.Snapshot().Messages
		slice.Endpoints[42].Conditions.Ready = &x.ready
		var err error
		if slice, err = of.Update(l.t.Context(), slice, metav1.UpdateOptions{}); err != nil {
			l.t.Fatal(err)
		}
		awaitState(l.t, s, x.kind, func(now proxy.Snapshot) bool { return now.Get.Has(flipped) == x.ready })
		l.quiet(s)
		sizes, recent := l.sizes.take(), s.Recent()
		last := recent[len(recent)-1]
		if n := s.Snapshot().Messages - before; n != 1 || len(sizes) != 1 || sizes[0] > x.most || last.Kind != x.kind || !slices.Equal(last.Addrs, []netip.AddrPort{flipped}) {
			l.t.Errorf("%s: %d messages of %d bytes, the last is %v", where, n, sizes, last)
		}
	}
	l.slices[where][3] = slice
	stayed := slices.DeleteFunc(slices.Clone(l.addrs), func(a netip.AddrPort) bool { return a == flipped })
	if err := s.Flapped(stayed...); err != nil {
		l.t.Error(err)
	}
	s.Mark()
}
