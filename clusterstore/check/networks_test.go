package check

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"isthmus/internal/adminapi"
)

func TestOverlaps(t *testing.T) {
	list := []network{networkOf("local", []string{"10.0.0.0/8"}), networkOf("east", []string{"10.1.0.0/16", "10.2.0.0/16"}), networkOf("north", []string{"10.1.2.0/24", "fd00::/64"}), networkOf("south", []string{"fd00::/80", "192.168.0.0/16"})}
	found := overlaps(list)
	for name, want := range map[string]string{
		"local": "[]", "east": "[10.1.0.0/16 overlaps 10.0.0.0/8 of local]",
		"north": "[10.1.2.0/24 overlaps 10.0.0.0/8 of local 10.1.2.0/24 overlaps 10.1.0.0/16 of east]",
		"south": "[fd00::/80 overlaps fd00::/64 of north]",
	} {
		if got := fmt.Sprint(found[name]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
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
	seen := Seen{Clusters: adminapi.Clusters{Clusters: []adminapi.Cluster{}}}
	for _, c := range []struct{ name, on string }{{"a", ""}, {"b", "far"}, {"c", "far"}, {"d", "farther"}} {
		one := goodCluster(c.name)
		one.Network, one.State = c.on, ""
		one.API.Networks = &adminapi.PodNetworks{Nodes: 1, CIDRs: []string{"10.0.0.0/24"}}
		seen.Clusters.Clusters = append(seen.Clusters.Clusters, one)
	}
	var bad []string
	for _, x := range Judge(seen) {
		if x.Check == PodNetworks && x.Level == Warning {
			bad = append(bad, x.Object)
		}
	}
	if !slices.Equal(bad, []string{"c"}) {
		t.Errorf("overlaps of %q, want of c with b", bad)
	}
}
