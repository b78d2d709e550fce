package check

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"isthmus/internal/adminapi"
)

// TestOverlaps: each two clusters whose ranges overlap are named once, by the second, if they are on one network.
func TestOverlaps(t *testing.T) {
	seen := goodSeen()
	seen.Clusters.Clusters = nil
	for _, c := range []struct {
		name, network string
		cidrs         []string
	}{
		{"local", "", []string{"10.0.0.0/8"}}, {"east", "", []string{"10.1.0.0/16", "10.2.0.0/16"}}, {"north", "", []string{"10.1.2.0/24", "fd00::/64"}},
		{"south", "", []string{"fd00::/80", "192.168.0.0/16", "none"}}, {"twin", "", []string{"192.168.0.0/16"}},
		{"b", "far", []string{"10.0.0.0/24"}}, {"c", "far", []string{"10.0.0.0/24"}}, {"d", "farther", []string{"10.0.0.0/24"}},
	} {
		one := goodCluster(c.name)
		one.Network, one.API.Networks = c.network, &adminapi.PodNetworks{Nodes: 1, CIDRs: c.cidrs}
		if c.network != "" {
			one.Gateways = []adminapi.ClusterGateway{{State: "alive"}}
		}
		if c.name == "local" {
			seen.Local = one
		} else {
			seen.Clusters.Clusters = append(seen.Clusters.Clusters, one)
		}
	}
	want := []string{
		"warning pod-networks c: Pod CIDRs overlap: 10.0.0.0/24 is also of b",
		"warning pod-networks east: Pod CIDRs overlap: 10.1.0.0/16 overlaps 10.0.0.0/8 of local",
		"warning pod-networks north: Pod CIDRs overlap: 10.1.2.0/24 overlaps 10.0.0.0/8 of local; 10.1.2.0/24 overlaps 10.1.0.0/16 of east",
		"warning pod-networks south: Pod CIDRs overlap: fd00::/80 overlaps fd00::/64 of north",
		"warning pod-networks twin: Pod CIDRs overlap: 192.168.0.0/16 is also of south",
	}
	if got := found(seen); !slices.Equal(got, want) {
		t.Errorf("found\n%s", strings.Join(got, "\n"))
	}
}

// TestOverlapOfAny: there is an overlap of two lists just if comparing each range with each finds one.
func TestOverlapOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lists [2][]netip.Prefix
		for i := range lists {
			for range rapid.IntRange(0, 6).Draw(t, "ranges") {
				a := netip.AddrFrom4([4]byte{10, rapid.ByteRange(0, 3).Draw(t, "b"), rapid.ByteRange(0, 3).Draw(t, "c") << 6, 0})
				p := netip.PrefixFrom(a, rapid.IntRange(7, 24).Draw(t, "bits")).Masked()
				if !slices.ContainsFunc(lists[i], p.Overlaps) {
					lists[i] = append(lists[i], p)
				}
			}
			slices.SortFunc(lists[i], netip.Prefix.Compare)
		}
		want := slices.ContainsFunc(lists[0], func(x netip.Prefix) bool { return slices.ContainsFunc(lists[1], x.Overlaps) })
		x, y, got := overlap(lists[0], lists[1])
		if got != want || got && !(slices.Contains(lists[0], x) && slices.Contains(lists[1], y) && x.Overlaps(y)) {
			t.Fatalf("%v, want %v: %v and %v, of %v", got, want, x, y, lists)
		}
	})
}

// TestAge: facts that were not read for this check are shown with their age, whatever they are.
func TestAge(t *testing.T) {
	for name, x := range map[string]struct {
		anchors, networks int
		want              []string
	}{
		"as young as can be expected": {anchors: 15, networks: 65},
		"old": {anchors: 16, networks: 1900, want: []string{
			"unchecked pod-networks east: the credentials may not read Nodes (read 32 minutes ago)",
			"unchecked trust-anchors east: ConfigMap x is not there (read 16 seconds ago)",
		}},
	} {
		seen := goodSeen()
		api := *seen.Clusters.Clusters[0].API
		seen.Clusters.Clusters[0].API = &api
		api.Anchors = &adminapi.TrustAnchors{Error: "ConfigMap x is not there", AgeSeconds: x.anchors}
		api.Networks = &adminapi.PodNetworks{Error: "the credentials may not read Nodes", AgeSeconds: x.networks}
		if x.want == nil {
			x.want = []string{
				"unchecked pod-networks east: the credentials may not read Nodes",
				"unchecked trust-anchors east: ConfigMap x is not there",
			}
		}
		got := found(seen)
		slices.Sort(got)
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: found\n%s", name, strings.Join(got, "\n"))
		}
	}
}
