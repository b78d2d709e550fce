package federation

import (
	"iter"
	"net/netip"
	"slices"
)

// offer is what one member has on offer: slices whose pointers stay the same while
// they are unchanged.
type offer []*Slice

// behind counts what is behind the Linkerd gateways of an offer.
func (o offer) behind() (n Behind) {
	for _, s := range o {
		if s.Behind != nil {
			n.Ready += s.Behind.Ready
			n.Unready += s.Behind.Unready
		}
	}
	return n
}

// offers is what a port's members have on offer. The first offer with an address wins it, and
// within an offer the first slice. The others remain in the list, and take over when the
// winner leaves.
type offers []memberOffer

// memberOffer is the offer of the member at a place in port.members, or a part of it: see
// steering.offers.
type memberOffer struct {
	member int
	offer
}

// at iterates over the slices that have an address on offer, each with its member's place.
func (o offers) at(a netip.AddrPort) iter.Seq2[int, *Slice] {
	return func(yield func(int, *Slice) bool) {
		for _, one := range o {
			for _, s := range one.offer {
				if _, ok := find(s.Endpoints, a); ok && !yield(one.member, s) {
					return
				}
			}
		}
	}
}

// contested holds every address that more than one slice offers, of the same or
// of different members, and perhaps some that were contested earlier. The winner of
// any other address is known from the slice that changed alone, without a search
// through all offers.
type contested map[netip.AddrPort]struct{}

// merge merges all offers from scratch: sorted, one endpoint per address.
func merge(offers offers) ([]*Endpoint, contested) {
	n := 0
	for _, o := range offers {
		for _, s := range o.offer {
			n += len(s.Endpoints)
		}
	}
	all := make([]*Endpoint, 0, n)
	for _, o := range offers {
		for _, s := range o.offer {
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

// remerge returns what merge(offers) does, given its results from before the offer
// at i changed from old. Endpoints equal to those in merged keep their pointer,
// and merged itself is returned if nothing has changed. It may write to c.
//
// Only addresses of slices whose pointer changed are compared. So the work depends
// on the size of the changed slice; of the whole set, one list of pointers is
// copied. If much has changed, merging from scratch is cheaper.
func remerge(merged []*Endpoint, c contested, offers offers, i int, old offer) ([]*Endpoint, contested) {
	list := touchedAddrs(old, offers[i].offer)
	if len(list) == 0 {
		return merged, c
	}
	if 8*len(list) > len(merged) {
		fresh, c := merge(offers)
		return keepPointers(merged, fresh), c
	}
	return patch(merged, list, func(t touched, was bool) *Endpoint {
		if _, ok := c[t.addr]; !ok && (t.before || !was) && t.offers < 2 {
			return t.now // no other slice offers it
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

// keepPointers replaces the endpoints of list that are equal to those in old by the
// old pointers. It returns old itself if that makes the two the same. It writes to
// list, which must not be shared.
func keepPointers(old, list []*Endpoint) []*Endpoint {
	j := 0
	same := len(old) == len(list)
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

// touched is an address whose winner may be another after a change.
type touched struct {
	addr   netip.AddrPort
	before bool      // a changed slice offered it before
	now    *Endpoint // of the first changed slice that offers it now; nil: none does
	offers int       // how many changed slices offer it now
}

// touchedAddrs lists, sorted, the addresses whose winner may be another after the
// change from old to new.
func touchedAddrs(old, new offer) []touched {
	var list []touched
	forEachOffered(old, new, func(a, b *Endpoint) {
		if b == nil {
			list = append(list, touched{addr: a.Addr, before: true})
		} else {
			list = append(list, touched{addr: b.Addr, before: a != nil, now: b, offers: 1})
		}
	})
	slices.SortStableFunc(list, func(a, b touched) int { return a.addr.Compare(b.addr) })
	return combine(list)
}

// forEachOffered calls f for the endpoints that differ between two offers. It skips the
// slices that both have at the beginning and at the end, and compares the others place
// by place, so that an address which moves from slice to slice is removed and added.
func forEachOffered(old, new offer, f func(a, b *Endpoint)) {
	before, after := sameEnds(old, new)
	old = old[before : len(old)-after]
	new = new[before : len(new)-after]
	for i := range max(len(old), len(new)) {
		if i < min(len(old), len(new)) && old[i] == new[i] {
			continue
		}
		forEachChange(endpointsAt(old, i), endpointsAt(new, i), f)
	}
}

// sameEnds counts the slices that two offers have in common at the beginning and, of
// the rest, at the end.
func sameEnds(a, b offer) (before, after int) {
	n := min(len(a), len(b))
	for before < n && a[before] == b[before] {
		before++
	}
	for after < n-before && a[len(a)-1-after] == b[len(b)-1-after] {
		after++
	}
	return before, after
}

// combine makes one entry of those for the same address. It writes to list.
func combine(list []touched) []touched {
	n := 0
	for _, t := range list {
		if n == 0 || list[n-1].addr != t.addr {
			list[n] = t
			n++
			continue
		}
		one := &list[n-1]
		one.before = one.before || t.before
		one.offers += t.offers
		if one.now == nil {
			one.now = t.now
		}
	}
	return list[:n]
}

// endpointsAt returns the endpoints of the slice at i; nil if there is none.
func endpointsAt(o offer, i int) []*Endpoint {
	if i < len(o) {
		return o[i].Endpoints
	}
	return nil
}

// winner returns the endpoint that wins an address, nil if no slice offers it, and
// whether several slices offer it.
func winner(offers offers, a netip.AddrPort) (won *Endpoint, several bool) {
	for _, o := range offers {
		for _, s := range o.offer {
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

// patch returns list with the endpoint at each of the addresses (sorted, no
// duplicates) replaced by what pick returns: nil removes it. was is whether list has
// the address. It returns list itself if that changes nothing.
func patch(list []*Endpoint, addrs []touched, pick func(t touched, was bool) *Endpoint) []*Endpoint {
	var out []*Endpoint // has all of list's endpoints before from
	from := 0
	for _, t := range addrs {
		i, was := find(list[from:], t.addr)
		i += from
		now := pick(t, was)
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

func find(list []*Endpoint, a netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(list, a, func(e *Endpoint, a netip.AddrPort) int { return e.Addr.Compare(a) })
}

// mergeSorted merges two lists that have no address in common.
func mergeSorted(a, b []*Endpoint) []*Endpoint {
	list := make([]*Endpoint, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compareAddr(a[0], b[0]) < 0 {
			list, a = append(list, a[0]), a[1:]
		} else {
			list, b = append(list, b[0]), b[1:]
		}
	}
	return append(append(list, a...), b...)
}

// same reports whether two lists have the same pointers.
func same(a, b []*Endpoint) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// forEachChange calls f, in order, for every address at which the two sorted lists
// have different pointers. The side that does not have the address is nil.
func forEachChange(a, b []*Endpoint, f func(a, b *Endpoint)) {
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		if a[i] == b[j] {
			i, j = i+1, j+1
			continue
		}
		switch c := compareAddr(a[i], b[j]); {
		case c < 0:
			f(a[i], nil)
			i++
		case c > 0:
			f(nil, b[j])
			j++
		default:
			f(a[i], b[j])
			i, j = i+1, j+1
		}
	}
	for ; i < len(a); i++ {
		f(a[i], nil)
	}
	for ; j < len(b); j++ {
		f(nil, b[j])
	}
}
