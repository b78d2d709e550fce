package federation

import (
	"net/netip"
	"slices"
)

// offer is what one member has on offer: slices whose pointers stay while they
// are unchanged.
type offer []*Slice

// merge settles every address from scratch: sorted, one endpoint per address,
// the first offer that has it wins, within an offer the first slice.
func merge(offers []offer) []*Endpoint {
	n := 0
	for _, o := range offers {
		for _, s := range o {
			n += len(s.Endpoints)
		}
	}
	all := make([]*Endpoint, 0, n)
	for _, o := range offers {
		for _, s := range o {
			all = append(all, s.Endpoints...)
		}
	}
	slices.SortStableFunc(all, compareAddr)
	return slices.CompactFunc(all, func(a, b *Endpoint) bool { return a.Addr == b.Addr })
}

// remerge is merge(offers) where merged is what it was before the offer at i
// changed from old. Endpoints equal to those in merged
// keep their pointer, and merged itself is returned if nothing has changed.
func remerge(merged []*Endpoint, offers []offer, i int, old offer) []*Endpoint {
	touched := differing(old, offers[i])
	if len(touched) == 0 {
		return merged
	}
	if 8*len(touched) > len(merged) {
		return retain(merged, merge(offers))
	}
	return patch(merged, touched, func(a netip.AddrPort) *Endpoint { return winner(offers, a) })
}

// retain gives the endpoints of list that are equal to those in old their old
// pointers; it returns old itself if that makes the two the same. It writes to
// list, which must be fresh.
func retain(old, list []*Endpoint) []*Endpoint {
	j, same := 0, len(old) == len(list)
	for i, e := range list {
		for j < len(old) && compareAddr(old[j], e) < 0 {
			j++
		}
		if j < len(old) && old[j].Addr == e.Addr && old[j].Equal(e) {
			list[i] = old[j]
		} else {
			same = false
		}
	}
	if same {
		return old
	}
	return list
}

// differing lists, sorted, the addresses that could be settled otherwise after
// the change: where the two offers hold different pointers at the same place,
// once the slices that they share at both ends are passed over.
func differing(old, new offer) []netip.AddrPort {
	for len(old) > 0 && len(new) > 0 && old[0] == new[0] {
		old, new = old[1:], new[1:]
	}
	for len(old) > 0 && len(new) > 0 && old[len(old)-1] == new[len(new)-1] {
		old, new = old[:len(old)-1], new[:len(new)-1]
	}
	var touched []netip.AddrPort
	for i := range max(len(old), len(new)) {
		walk(at(old, i), at(new, i), func(a, b *Endpoint) {
			if a == nil {
				a = b
			}
			touched = append(touched, a.Addr)
		})
	}
	slices.SortFunc(touched, netip.AddrPort.Compare)
	return slices.Compact(touched)
}

func at(o offer, i int) []*Endpoint {
	if i < len(o) {
		return o[i].Endpoints
	}
	return nil
}

// winner is the endpoint that an address goes to; nil if nobody offers it.
func winner(offers []offer, a netip.AddrPort) *Endpoint {
	for _, o := range offers {
		for _, s := range o {
			if i, ok := find(s.Endpoints, a); ok {
				return s.Endpoints[i]
			}
		}
	}
	return nil
}

func find(list []*Endpoint, a netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(list, a, func(e *Endpoint, a netip.AddrPort) int { return e.Addr.Compare(a) })
}

// patch returns list with each of the addresses (sorted, no duplicates) going to
// settle's answer; list itself if that changes nothing.
func patch(list []*Endpoint, addrs []netip.AddrPort, settle func(netip.AddrPort) *Endpoint) []*Endpoint {
	var out []*Endpoint // of list's endpoints, those before from are in it
	from := 0
	for _, a := range addrs {
		i, was := find(list[from:], a)
		i += from
		now := settle(a)
		if was && now != nil && list[i].Equal(now) || !was && now == nil {
			continue
		}
		if out == nil {
			out = make([]*Endpoint, 0, len(list)+len(addrs))
		}
		out = append(out, list[from:i]...)
		if now != nil {
			out = append(out, now)
		}
		if from = i; was {
			from++
		}
	}
	if out == nil {
		return list
	}
	return append(out, list[from:]...)
}
