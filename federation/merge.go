package federation

import (
	"net/netip"
	"slices"
)

// offer is what one member has on offer: slices whose pointers stay while they
// are unchanged.
type offer []*Slice

// contested holds every address that more than one slice offers, of whichever
// member, and perhaps some that no longer are. For all others there is nobody to
// ask but the slice that changes: who wins them is found without a look at the
// rest of the set.
type contested map[netip.AddrPort]struct{}

// merge settles every address from scratch: sorted, one endpoint per address,
// the first offer that has it wins, within an offer the first slice.
func merge(offers []offer) ([]*Endpoint, contested) {
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
	c := make(contested)
	return slices.CompactFunc(all, func(a, b *Endpoint) bool {
		if a.Addr != b.Addr {
			return false
		}
		c[a.Addr] = struct{}{}
		return true
	}), c
}

// remerge is merge(offers) where merged and c are what it was before the offer
// at i changed from old. Endpoints equal to those in merged keep their pointer,
// and merged itself is returned if nothing has changed. It may write to c.
func remerge(merged []*Endpoint, c contested, offers []offer, i int, old offer) ([]*Endpoint, contested) {
	list := differing(old, offers[i])
	if len(list) == 0 {
		return merged, c
	}
	if 8*len(list) > len(merged) {
		fresh, c := merge(offers)
		return retain(merged, fresh), c
	}
	return patch(merged, list, func(t touched, was bool) *Endpoint {
		if _, ok := c[t.addr]; !ok && (t.old || !was) && t.offers < 2 {
			return t.now // nobody else offers it
		}
		now, several := winner(offers, t.addr)
		if several {
			c[t.addr] = struct{}{}
		} else {
			delete(c, t.addr)
		}
		return now
	}), c
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

// touched is an address that may be settled otherwise after a change.
type touched struct {
	addr   netip.AddrPort
	old    bool      // a changed slice offered it before
	now    *Endpoint // the first changed slice's that offers it now; nil: none does
	offers int       // how many of them do
}

// differing lists, sorted, the addresses that could be settled otherwise after
// the change: where the two offers hold different pointers at the same place,
// once the slices that they share at both ends are passed over.
func differing(old, new offer) []touched {
	for len(old) > 0 && len(new) > 0 && old[0] == new[0] {
		old, new = old[1:], new[1:]
	}
	for len(old) > 0 && len(new) > 0 && old[len(old)-1] == new[len(new)-1] {
		old, new = old[:len(old)-1], new[:len(new)-1]
	}
	var list []touched
	for i := range max(len(old), len(new)) {
		if i < min(len(old), len(new)) && old[i] == new[i] {
			continue
		}
		walk(at(old, i), at(new, i), func(a, b *Endpoint) {
			if b == nil {
				list = append(list, touched{addr: a.Addr, old: true})
			} else {
				list = append(list, touched{addr: b.Addr, old: a != nil, now: b, offers: 1})
			}
		})
	}
	slices.SortStableFunc(list, func(a, b touched) int { return a.addr.Compare(b.addr) })
	return fold(list)
}

// fold makes one of the entries for the same address. It writes to list.
func fold(list []touched) []touched {
	n := 0
	for _, t := range list {
		if n == 0 || list[n-1].addr != t.addr {
			list[n] = t
			n++
			continue
		}
		one := &list[n-1]
		one.old, one.offers = one.old || t.old, one.offers+t.offers
		if one.now == nil {
			one.now = t.now
		}
	}
	return list[:n]
}

func at(o offer, i int) []*Endpoint {
	if i < len(o) {
		return o[i].Endpoints
	}
	return nil
}

// winner is the endpoint that an address goes to, nil if nobody offers it, and
// tells whether somebody else offers it too.
func winner(offers []offer, a netip.AddrPort) (won *Endpoint, several bool) {
	for _, o := range offers {
		for _, s := range o {
			if i, ok := find(s.Endpoints, a); ok {
				if won != nil {
					return won, true
				}
				won = s.Endpoints[i]
			}
		}
	}
	return won, false
}

func find(list []*Endpoint, a netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(list, a, func(e *Endpoint, a netip.AddrPort) int { return e.Addr.Compare(a) })
}

// patch returns list with each of the addresses (sorted, no duplicates) going to
// settle's answer; list itself if that changes nothing.
func patch(list []*Endpoint, addrs []touched, settle func(t touched, was bool) *Endpoint) []*Endpoint {
	var out []*Endpoint // of list's endpoints, those before from are in it
	from := 0
	for _, t := range addrs {
		i, was := find(list[from:], t.addr)
		i += from
		now := settle(t, was)
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
