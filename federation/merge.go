package federation

import (
	"iter"
	"net/netip"
	"slices"
)

// An offer is the list of slices that one member contributes to a port. Slices are immutable, so
// slices with equal pointers have equal contents.
type offer []*Slice

func (o offer) behind() (n Behind) {
	for _, s := range o {
		if s.Behind != nil {
			n.Ready += s.Behind.Ready
			n.Unready += s.Behind.Unready
		}
	}
	return n
}

// A value of type offers contains what each member of a service offers for one port. If several
// offers contain the same address, the first of these offers takes precedence. If several slices of
// one offer contain the same address, the first of these slices takes precedence. An endpoint stays
// in its offer even if another endpoint takes precedence, because the other endpoint may be removed
// later.
type offers []memberOffer

// memberOffer is all or part of a member's offer (see steering.offers).
type memberOffer struct {
	member int // index in port.members
	offer
}

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

// The contested map contains every address that more than one slice offers, even if all these
// slices belong to the same member. Addresses that were contested earlier may remain in the map. If
// an address is not in the map, its winner can be determined without searching all offers.
type contested map[netip.AddrPort]struct{}

// merge merges all offers from scratch. The result is sorted by address, and contains one endpoint
// per address.
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

// remerge returns the same endpoints as merge(offers), but reuses the result of an earlier merge.
// Only the offer at index i may have changed since the earlier merge. The last argument is the
// previous offer at index i. If an endpoint has not changed, the result contains the same pointer
// to the endpoint as the given merged list. If no endpoint has changed, the result is the given
// merged list. The call may modify the given map of contested addresses.
//
// The cost of remerge has two parts: copying one list of pointers, and work that depends only on
// the size of the changed slices. If many addresses may have changed, remerge calls merge, because
// merging from scratch is then cheaper.
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
			return t.now // no other slice offers the address
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

// keepPointers replaces endpoints in the new list with equal endpoints from the old list. If both
// lists contain the same pointers afterwards, the result is the old list. The new list must not be
// shared, because keepPointers modifies it.
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

type touched struct {
	addr   netip.AddrPort
	before bool      // whether a changed slice offered the address before
	now    *Endpoint // the endpoint in the first changed slice that now offers the address; nil if there is none
	offers int       // number of changed slices that now offer the address
}

// touchedAddrs returns a sorted list of the addresses whose winner may change when an offer
// changes.
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

// forEachOffered calls f for the endpoints that differ between two offers. Leading and trailing
// slices that both offers share are skipped. Other slices are compared by index, so an address that
// moves to another slice may be reported both as removed and as added.
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

// sameEnds returns how many leading slices and how many trailing slices two offers share. No slice
// is counted twice.
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

// combine merges all entries for the same address into one, and modifies the given list.
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

func endpointsAt(o offer, i int) []*Endpoint {
	if i < len(o) {
		return o[i].Endpoints
	}
	return nil
}

// winner returns the endpoint that takes precedence for an address, or nil if no slice offers the
// address. The second result reports whether several slices offer the address.
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

// patch returns a copy of the given list with new endpoints at the given addresses. The addresses
// must be sorted and must not contain duplicates. If no endpoint changes, the result is the given
// list.
//
// The pick function returns the new endpoint at an address, or nil to remove the endpoint. The
// second argument of the pick function is true if the list contains the address.
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

func same(a, b []*Endpoint) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// forEachChange calls f, in order, for every address at which two sorted lists have different
// pointers. If one list does not contain the address, the corresponding argument is nil.
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
