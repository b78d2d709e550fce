package federation

import (
	"net/netip"
	"slices"
	"testing"
)

// TestYields checks an address that several members offer. Each member except the first yields the
// address. The address counts once per member, even if several of its slices contain the address.
// An address that only one member offers is not yielded.
//
// Behaviours: FF-05.
func TestYields(t *testing.T) {
	slicesOf := func(member int, lists ...string) memberOffer {
		var o offer
		for _, list := range lists {
			s := &Slice{}
			for _, host := range list {
				ip := netip.AddrFrom4([4]byte{10, 0, 0, byte(host)})
				s.Endpoints = append(s.Endpoints, &Endpoint{Addr: netip.AddrPortFrom(ip, 80)})
			}
			o = append(o, s)
		}
		return memberOffer{member, o}
	}
	for _, tc := range []struct {
		offers offers
		want   []int
	}{
		{nil, []int{}},
		{offers{slicesOf(0, "ab"), slicesOf(1, "c")}, []int{0, 0}},
		{offers{slicesOf(0, "ab", "b"), slicesOf(1, "c", "c", "d")}, []int{0, 0}},
		{offers{slicesOf(0, "ab"), slicesOf(1, "ab", "bc"), slicesOf(2, "b", "c")}, []int{0, 2, 2}},
		{offers{slicesOf(0), slicesOf(1, "a", "a"), slicesOf(2, "b"), slicesOf(3, "a", "ab")}, []int{0, 0, 0, 2}},
		// Both members have parts of last resort.
		{offers{slicesOf(0, "a"), slicesOf(1, "ab"), slicesOf(0, "ab"), slicesOf(1, "c")}, []int{1, 1}},
	} {
		_, contested := merge(tc.offers)
		p := &port{offers: tc.offers, contested: contested}
		members := make([]WatchedMember, len(tc.want))
		countYields(p, members)
		for i, m := range members {
			if m.Yielded != tc.want[i] || len(m.Conflicts) != tc.want[i] {
				t.Errorf("%v: member %d yields %d (%v), want %d", tc.offers, i, m.Yielded, m.Conflicts, tc.want[i])
			}
		}
	}
}

// outOfReach is a cluster that clients cannot reach.
type outOfReach struct{ *cluster }

func (outOfReach) Reachable() bool { return false }

// TestUnservedOutOfReach checks that an unreachable member is listed as unserved. Problems of the
// Service itself take precedence.
func TestUnservedOutOfReach(t *testing.T) {
	web, none := ServiceID{"ns", "web"}, ServiceID{"ns", "none"}
	table, east := NewTable(Options{}), newCluster("east")
	east.set(web, "s")
	table.Define(web, &Definition{Federated: true, Members: []Member{{"east", web}, {"east", none}}})
	unserved := func(source Source) (list []string) {
		table.Link("east", Ready, source)
		for _, u := range table.Unserved() {
			list = append(list, u.Member.Service.Name+": "+u.Status.String())
		}
		return list
	}
	if got := unserved(east); !slices.Equal(got, []string{"none: no such Service in the cluster"}) {
		t.Errorf("%q", got)
	}
	want := []string{"web: no gateway of the cluster can be used", "none: no such Service in the cluster"}
	if got := unserved(outOfReach{east}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
