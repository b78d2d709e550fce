package wire

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"isthmus/federation"
)

// TestSpread checks that every prefix of a message has a proportional share of each cluster, and of
// each zone in a cluster.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := scattered(t)
		got := spread(list)
		if !slices.Equal(got, spread(rapid.Permutation(list).Draw(t, "order"))) {
			t.Fatal("the order does not depend only on the endpoints")
		}
		all := countZones(got)
		if len(got) != len(list) || !slices.Equal(addresses(got), addresses(list)) {
			t.Fatalf("got %d endpoints of %d, or different ones", len(got), len(list))
		}
		m := rapid.IntRange(0, len(list)).Draw(t, "fit")
		some := countZones(got[:m])
		for c, of := range all.clusters {
			share(t, string(c), some.clusters[c], of, m, len(list), len(all.clusters))
		}
		for z, of := range all.zones {
			zones := 0
			for other := range all.zones {
				if other.cluster == z.cluster {
					zones++
				}
			}
			share(t, fmt.Sprint(z), some.zones[z], of, some.clusters[z.cluster], all.clusters[z.cluster], zones)
		}
	})
}

// TestSpreadStays checks that the first message changes little when a set loses an endpoint.
func TestSpreadStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := scattered(t)
		m := rapid.IntRange(0, len(list)-1).Draw(t, "fit")
		lost := rapid.IntRange(0, len(list)-1).Draw(t, "lost")
		before := map[*federation.Endpoint]bool{}
		for _, ep := range spread(list)[:m] {
			before[ep] = true
		}
		fresh := 0
		for _, ep := range spread(slices.Delete(slices.Clone(list), lost, lost+1))[:m] {
			if !before[ep] {
				fresh++
			}
		}
		if most := 2 * len(countZones(list).zones); fresh > most {
			t.Fatalf("%d of %d endpoints are new, with %d zones", fresh, m, most/2)
		}
	})
}

// scattered generates endpoints of clusters with very different sizes.
func scattered(t *rapid.T) []*federation.Endpoint {
	var list []*federation.Endpoint
	for c := range rapid.IntRange(1, 4).Draw(t, "clusters") {
		for z := range rapid.IntRange(1, 4).Draw(t, "zones") {
			for range rapid.IntRange(1, 60).Draw(t, "endpoints") {
				n := len(list)
				list = append(list, &federation.Endpoint{
					Addr:    netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(c), byte(n >> 8), byte(n)}), 80),
					Cluster: federation.ClusterName(fmt.Sprintf("c%d", c)), Zone: fmt.Sprintf("z%d", z),
				})
			}
		}
	}
	return list
}

type zoneCounts struct {
	clusters map[federation.ClusterName]int
	zones    map[clusterZone]int
}

func countZones(list []*federation.Endpoint) zoneCounts {
	n := zoneCounts{map[federation.ClusterName]int{}, map[clusterZone]int{}}
	for _, ep := range list {
		n.clusters[ep.Cluster]++
		n.zones[clusterZone{ep.Cluster, ep.Zone}]++
	}
	return n
}

// share checks that a group has its share of the m first endpoints. The group may have at most one
// endpoint more. A group may have fewer endpoints only if the shares of other groups are rounded
// up.
func share(t *rapid.T, group string, has, of, m, all, groups int) {
	due := float64(m) * float64(of) / float64(all)
	if f := float64(has); f > due+1 || f < due-float64(groups) || m >= groups && has == 0 {
		t.Fatalf("%s has %d of %d among %d of %d, want about %.1f", group, has, of, m, all, due)
	}
}

func addresses(list []*federation.Endpoint) []netip.AddrPort {
	var addrs []netip.AddrPort
	for _, ep := range list {
		addrs = append(addrs, ep.Addr)
	}
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	return addrs
}
