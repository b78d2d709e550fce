package federation

import (
	"iter"
	"net/netip"
	"slices"
)

// offer contains the slices that one member offers. A slice keeps its pointer until it changes.
type offer []*Slice

// behind returns the number of endpoints behind the Linkerd gateways of an offer.
func (o offer) behind() (n Behind) {
	for _, s := range o {
		if s.Behind != nil {
			n.Ready += s.Behind.Ready
			n.Unready += s.Behind.Unready
		}
	}
	return n
}

// offers contains the offers of a port's members. If several offers contain an address, the first
// offer wins. Within an offer, the first slice wins. The other slices stay in the list, and take
// over if the winner is removed.
type offers []memberOffer

// memberOffer is the offer, or a part of the offer, of the member at an index in port.members: see
// steering.offers.
type memberOffer struct {
	member int
	offer
}

// at iterates over the slices that contain an address, each with the index of its member.
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

// contested contains every address that several slices offer, whether of one member or of several.
// It may also contain addresses that were contested earlier. For all other addresses, the changed
// slice alone determines the winner, without a search through all offers.
type contested map[netip.AddrPort]struct{}

// merge merges all offers from scratch. The result is sorted, with one endpoint per address.
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

// remerge returns the same result as merge(offers). Its arguments are the results of merge before
// the offer at index i changed from old. Endpoints equal to those in merged keep their pointer. If
// nothing has changed, remerge returns merged itself. It may write to c.
//
// remerge compares only the addresses of slices whose pointer has changed. So the cost depends on
// the size of the changed slices, apart from copying one list of pointers. If many addresses may
// have changed, remerge merges from scratch, because that is cheaper.
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

// keepPointers replaces each endpoint of list that is equal to one in old with the pointer from
// old. If the lists are then the same, keepPointers returns old itself. It writes to list, which
// must not be shared.
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

// touched is an address whose winner may change.
type touched struct {
	addr   netip.AddrPort
	before bool      // whether a changed slice offered it before
	now    *Endpoint // the endpoint in the first changed slice that now offers it; nil if there is none
	offers int       // number of changed slices that now offer it
}

// touchedAddrs lists the addresses whose winner may change if an offer changes from old to new. The
// list is sorted.
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

// forEachOffered calls f for the endpoints that differ between two offers. It skips the slices that
// the offers share at the beginning and at the end. The other slices are compared by index. So an
// address that moves to another slice is reported as removed and as added.
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

// sameEnds returns the number of slices that two offers share at the beginning and, of the
// remaining slices, at the end.
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

// combine combines the entries for the same address into one. It writes to list.
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

// endpointsAt returns the endpoints of the slice at index i, or nil if there is no such slice.
func endpointsAt(o offer, i int) []*Endpoint {
	if i < len(o) {
		return o[i].Endpoints
	}
	return nil
}

// winner returns the endpoint that wins an address, or nil if no slice offers the address. several
// reports whether more than one slice offers the address.
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

// patch returns a copy of list in which pick has replaced the endpoint at each of the addresses. If
// pick returns nil, patch removes the endpoint. was reports whether list contains the address.
// addrs must be sorted and without duplicates. If nothing changes, patch returns list itself.
func patch(list []*Endpoint, addrs []touched, pick func(t touched, was bool) *Endpoint) []*Endpoint {
	var out []*Endpoint // the result for all endpoints of list before index from
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

// mergeSorted merges two sorted lists that have no address in common.
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

// same reports whether two lists contain the same pointers.
func same(a, b []*Endpoint) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// forEachChange calls f for every address at which two sorted lists have different pointers, in
// order. If a list does not contain the address, its argument is nil.
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
