package gateway

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"isthmus/federation"
)

// TestNames: names are resolved every 30 s, and what they were resolved to last stays.
func TestNames(t *testing.T) {
	track(t, func(x *tracked) {
		resolve := func(name string, to ...string) { x.out.set(func() { x.out.names[name] = to }) }
		resolve("lb.example", "192.0.2.2", "192.0.2.1", "::ffff:192.0.2.1", "127.0.0.1", "fe80::1%eth0")
		x.Set([]Target{target("192.0.2.9"), target("lb.example"), target("lb.example")})
		x.has("192.0.2.9:4143", "192.0.2.1:4143", "192.0.2.2:4143")
		x.out.set(func() { x.out.dead["192.0.2.1"] = true })
		x.pass(3 * time.Second)
		resolve("lb.example", "192.0.2.1", "192.0.2.3")
		x.pass(26 * time.Second)
		x.has("192.0.2.9:4143", "!192.0.2.1:4143", "192.0.2.2:4143")
		x.pass(time.Second)
		x.has("192.0.2.9:4143", "!192.0.2.1:4143", "192.0.2.3:4143") // still dead
		x.out.set(func() { delete(x.out.names, "lb.example") })
		x.pass(30 * time.Second)
		x.has("192.0.2.9:4143", "!192.0.2.1:4143", "192.0.2.3:4143")
		if got := x.Problems(); !slices.Equal(got, []string{"Linkerd gateway lb.example: no such host"}) {
			t.Errorf("%q", got)
		}
		x.Set([]Target{target("192.0.2.9")})
		x.has("192.0.2.9:4143")
		if got := x.Problems(); got != nil {
			t.Errorf("%q", got)
		}
		x.Set(nil)
		x.has()
	})
}

// TestNamesComeBack: an address that a name is resolved to again is as dead, or alive, as it was, unless that is long
// ago.
func TestNamesComeBack(t *testing.T) {
	track(t, func(x *tracked) {
		resolve := func(to ...string) { x.out.set(func() { x.out.names["lb.example"] = to }) }
		resolve("192.0.2.1", "192.0.2.2")
		x.out.dead["192.0.2.1"] = true
		x.Set([]Target{target("lb.example")})
		x.pass(3*time.Second + time.Millisecond) // after the probes of a second
		x.has("!192.0.2.1:4143", "192.0.2.2:4143")
		dead := x.Addresses()[0]
		x.out.set(func() { x.out.probeTake = time.Second }) // what is known at first is not by a new probe
		resolve("192.0.2.3")
		x.pass(resolveEvery)
		resolve("192.0.2.1", "192.0.2.2")
		x.pass(resolveEvery - 4*time.Second)
		x.has("192.0.2.3:4143")
		x.pass(time.Second)
		x.has("!192.0.2.1:4143", "192.0.2.2:4143")
		if a := x.Addresses()[0]; a != dead {
			t.Errorf("%+v, want %+v", a, dead)
		}
		resolve("192.0.2.3")
		x.pass(rememberFor + resolveEvery)
		resolve("192.0.2.1", "192.0.2.2")
		x.pass(resolveEvery)
		x.has("?192.0.2.1:4143", "?192.0.2.2:4143")
	})
}

// TestRememberedBounded: of many addresses that come and go, few are remembered.
func TestRememberedBounded(t *testing.T) {
	track(t, func(x *tracked) {
		for i := range 20 {
			var targets []Target
			for k := range MostAddresses {
				targets = append(targets, target(fmt.Sprintf("198.51.%d.%d", i, k)))
			}
			x.Set(targets)
			x.pass(2 * time.Second)
		}
		x.mu.Lock()
		newest := x.probed[keyOf(netip.MustParseAddr("198.51.18.0"), target("").Probe)] != nil
		if n := len(x.probed); n != mostRemembered+MostAddresses || !newest {
			t.Errorf("%d are known, with those that are needed; of those that have just gone: %v", n, newest)
		}
		x.mu.Unlock()
		x.pass(rememberFor)
		x.Set(nil)
		x.pass(time.Second)
		x.mu.Lock()
		defer x.mu.Unlock()
		if n := len(x.probed); n != MostAddresses {
			t.Errorf("%d are remembered, of which the last %d have just gone", n, MostAddresses)
		}
	})
}

// TestNamesUnknown: a name that has not been resolved yet is tried again sooner than one that has.
func TestNamesUnknown(t *testing.T) {
	track(t, func(x *tracked) {
		x.Set([]Target{target("lb.example"), target("192.0.2.9")})
		x.has("192.0.2.9:4143")
		x.out.set(func() { x.out.names["lb.example"] = []string{"192.0.2.1"} })
		x.pass(resolveSoon)
		x.has("192.0.2.1:4143", "192.0.2.9:4143")
		x.out.set(func() { x.out.names["lb.example"] = []string{"192.0.2.2"} })
		x.pass(resolveEvery - time.Second)
		x.has("192.0.2.1:4143", "192.0.2.9:4143")
		x.out.set(func() { delete(x.out.names, "lb.example") })
		x.pass(time.Second)
		x.out.set(func() { x.out.names["lb.example"] = []string{"192.0.2.2"} })
		x.pass(resolveEvery - time.Second)
		x.has("192.0.2.1:4143", "192.0.2.9:4143") // what it was is known
		x.pass(time.Second)
		x.has("192.0.2.2:4143", "192.0.2.9:4143")
	})
}

// TestRangesOfUnresolvedNames tests that addresses which stay in use, because no new name can be resolved, are neither
// used nor probed outside the link's new ranges.
func TestRangesOfUnresolvedNames(t *testing.T) {
	track(t, func(x *tracked) {
		x.out.names["lb.example"] = []string{"192.0.2.1", "198.51.100.1"}
		x.Set([]Target{target("lb.example")})
		x.has("192.0.2.1:4143", "198.51.100.1:4143")

		ranges := federation.NewRanges(netip.MustParsePrefix("192.0.2.0/24"))
		unknown := target("unknown.example")
		unknown.Within = &ranges
		x.Set([]Target{unknown})
		x.has("192.0.2.1:4143", "?198.51.100.1:4143")
		if list := x.Addresses(); list[0].Outside || !list[1].Outside {
			t.Errorf("%+v", list)
		}

		x.out.set(func() { clear(x.out.probes) })
		x.pass(time.Minute)
		x.out.set(func() {
			if x.out.probes["192.0.2.1"] == 0 || x.out.probes["198.51.100.1"] > 0 {
				t.Errorf("probes: %v", x.out.probes)
			}
		})
	})
}

// TestRangesWhileResolving tests that new ranges hold for probes at once, also while names are being resolved.
func TestRangesWhileResolving(t *testing.T) {
	track(t, func(x *tracked) {
		x.out.names["lb.example"] = []string{"198.51.100.1"}
		x.Set([]Target{target("lb.example")})
		x.has("198.51.100.1:4143")

		x.out.set(func() { x.out.takes = resolveTake - time.Second })
		x.pass(resolveEvery + time.Millisecond)
		ranges := federation.NewRanges(netip.MustParsePrefix("192.0.2.0/24"))
		within := target("lb.example")
		within.Within = &ranges
		x.Set([]Target{within})
		x.out.set(func() { clear(x.out.probes) })
		x.pass(resolveTake)
		x.has("?198.51.100.1:4143")
		x.out.set(func() {
			if len(x.out.probes) > 0 {
				t.Errorf("probes: %v", x.out.probes)
			}
		})
	})
}
