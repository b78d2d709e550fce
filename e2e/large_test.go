package e2e

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// maxMessage is how large the gateway lets a message become: proxies take 4 MiB.
const maxMessage = 4<<20 - 16<<10

// TestLargeSet serves thousands of meshed endpoints as one federated Service over three clusters. One endpoint's change
// is one small message. A proxy that reconnects after a restart of the gateway loses what its first message has no room
// for, and nothing of a set that fits: it gets 5,000 and 15,000 endpoints in one message. Of 40,000 it keeps what fits, of
// each cluster and zone the same share, and the same endpoints after each restart; it has all again at once.
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
	s := proxy.NewStream(proxy.Config{Conn: conn, MayBeLate: true, Kind: proxy.Get, Authority: kube.Authority(largeNamespace, "web-all")})
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
	l.t.Logf("%d endpoints came as messages of %d bytes, the first with %d endpoints after %v, all after %v; %d bytes for each endpoint",
		len(l.addrs), sizes, in, status.First.At.Sub(status.Opened), time.Since(status.Opened), sizes[0]/in)
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

// fair checks that every cluster, and every zone of it, has lost as large a part as all together, and that these are the ones
// which one message has no room for.
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
		if n := s.Status().Messages; n != l.messages || len(sizes) != 1 || sizes[0] > x.most || last.Kind != x.kind || !slices.Equal(last.Addrs, []netip.AddrPort{flipped}) {
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
