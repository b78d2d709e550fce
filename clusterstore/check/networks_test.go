package check

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"isthmus/federation"
)

func networkOf(name string, ranges ...string) network {
	n := network{cluster: name}
	for _, r := range ranges {
		n.ranges = append(n.ranges, netip.MustParsePrefix(r))
	}
	return n
}

// TestOverlapsOfAny: the same pairs of clusters are found as by comparing each range with each.
func TestOverlapsOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []network
		for i := range rapid.IntRange(1, 5).Draw(t, "clusters") {
			n := network{cluster: string(rune('a' + i))}
			for range rapid.IntRange(0, 5).Draw(t, "ranges") {
				a := netip.AddrFrom4([4]byte{10, rapid.ByteRange(0, 3).Draw(t, "b"), rapid.ByteRange(0, 3).Draw(t, "c") << 6, 0})
				n.ranges = append(n.ranges, netip.PrefixFrom(a, rapid.IntRange(7, 24).Draw(t, "bits")).Masked())
			}
			list = append(list, n)
		}
		found := overlaps(list)
		for j, b := range list {
			for i, a := range list[:j] {
				want := slices.ContainsFunc(a.ranges, func(x netip.Prefix) bool { return slices.ContainsFunc(b.ranges, x.Overlaps) })
				got := slices.ContainsFunc(found[b.cluster], func(o overlap) bool { return o.with == a.cluster && o.ofRange.Overlaps(o.withThis) })
				if want != got {
					t.Fatalf("%d and %d: %v, want %v: %v", i, j, got, want, list)
				}
			}
		}
	})
}

// TestOtherNetworks: Pod CIDRs of clusters on different networks may overlap.
func TestOtherNetworks(t *testing.T) {
	report := new(Report)
	one := func(name, on string) *look {
		return &look{
			cluster: federation.ClusterName(name), on: on, answers: true, report: report,
			network: network{cluster: name, nodes: 1, ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}},
		}
	}
	compareNetworks([]*look{one("a", ""), one("b", "far"), one("c", "far"), one("d", "farther")})
	var bad []string
	for _, x := range report.Results() {
		if x.Level != OK {
			bad = append(bad, x.Object)
		}
	}
	if !slices.Equal(bad, []string{"c"}) {
		t.Errorf("overlaps of %q, want of c with b", bad)
	}
}
