package federation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// TestRemerge compares remerge with merge, for offers that are large enough for both branches of
// remerge.
func TestRemerge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		offers := make(offers, 3)
		for i := range offers {
			for range 1 + r.IntN(6) {
				offers[i].offer = append(offers[i].offer, randomSlice(r, 40))
			}
		}
		merged, known := merge(offers)
		for range 20 {
			i := r.IntN(len(offers))
			old := slices.Clone(offers[i].offer)
			for range 1 + r.IntN(2) {
				offers[i].offer = randomChange(r, offers[i].offer)
			}
			got, c := remerge(merged, known, offers, i, old)
			want, several := merge(offers)
			for a := range several {
				if _, ok := c[a]; !ok {
					t.Fatalf("%v is contested but missing in contested", a)
				}
			}
			if !slices.EqualFunc(got, want, (*Endpoint).Equal) {
				t.Fatalf("remerge: %v, want %v", text(got), text(want))
			}
			if !slices.IsSortedFunc(got, func(a, b *Endpoint) int { return cmp.Or(compareAddr(a, b), 1) }) {
				t.Fatalf("not strictly sorted: %v", text(got))
			}
			merged, known = got, c
		}
	}
}

func randomChange(r *rand.Rand, o offer) offer {
	o = slices.Clone(o)
	switch i := r.IntN(len(o) + 1); {
	case i == len(o) || r.IntN(4) == 0:
		return slices.Insert(o, i, randomSlice(r, 40))
	case r.IntN(4) == 0:
		return slices.Delete(o, i, i+1)
	case r.IntN(4) == 0:
		o[i] = randomSlice(r, 40)
	case r.IntN(3) == 0: // add an endpoint, which other slices may contain too
		e := &Endpoint{Addr: randomAddr(r), Zone: "new"}
		if j, ok := find(o[i].Endpoints, e.Addr); !ok {
			o[i] = &Slice{Endpoints: slices.Insert(slices.Clone(o[i].Endpoints), j, e)}
		}
	default: // replace an endpoint
		s := &Slice{Endpoints: slices.Clone(o[i].Endpoints)}
		if j := r.IntN(len(s.Endpoints) + 1); j < len(s.Endpoints) {
			e := *s.Endpoints[j]
			e.Zone += "x"
			if s.Endpoints[j] = &e; r.IntN(2) == 0 {
				s.Endpoints = slices.Delete(s.Endpoints, j, j+1)
			}
		}
		o[i] = s
	}
	return o
}

func randomAddr(r *rand.Rand) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(250))}), 80)
}

func randomSlice(r *rand.Rand, n int) *Slice {
	held := make(map[netip.AddrPort]*Endpoint)
	for range r.IntN(n) {
		a := randomAddr(r)
		held[a] = &Endpoint{Addr: a, Zone: fmt.Sprint(r.IntN(3))}
	}
	s := &Slice{}
	for _, e := range held {
		s.Endpoints = append(s.Endpoints, e)
	}
	slices.SortFunc(s.Endpoints, compareAddr)
	return s
}
