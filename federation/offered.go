package federation

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
)

// offeredAddrs counts how often linked clusters offer an address to watched ports, so that a
// change of an address that none of them offers costs one look-up. Keys have no
// pointers, to be cheap for the garbage collector, and no more bytes than they need.
type offeredAddrs struct {
	mu sync.Mutex // a leaf in the lock order
	v4 map[[4]byte]uint32
	v6 map[[16]byte]uint32
}

// has reports whether any linked cluster offers the address.
func (o *offeredAddrs) has(a netip.Addr) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if a = a.Unmap(); a.Is4() {
		return o.v4[a.As4()] > 0
	}
	return o.v6[a.As16()] > 0
}

// replace counts a member's offer in place of the one before.
func (o *offeredAddrs) replace(old, new offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	forEachOffered(old, new, func(a, b *Endpoint) {
		switch {
		case a == nil:
			o.add(b.Addr.Addr(), 1)
		case b == nil:
			o.add(a.Addr.Addr(), -1)
		}
	})
}

// add counts an address once more, or less. o.mu is held.
func (o *offeredAddrs) add(a netip.Addr, n int) {
	if a = a.Unmap(); a.Is4() {
		addTo(o.v4, a.As4(), n)
	} else {
		addTo(o.v6, a.As16(), n)
	}
}

func addTo[K comparable](count map[K]uint32, key K, n int) {
	if now := uint32(int(count[key]) + n); now == 0 {
		delete(count, key)
	} else {
		count[key] = now
	}
}

// OwnerChanged asks the local cluster's Owner again about an address, and publishes what
// that changes: an address that has got an owner leaves linked clusters' endpoints, and
// one that has lost it comes back. It costs one look-up unless a linked cluster offers
// the address to a watched port.
func (t *Table) OwnerChanged(a netip.Addr) {
	if !t.offered.has(a) {
		return
	}
	t.mu.Lock()
	services := slices.Collect(maps.Values(t.watched))
	t.mu.Unlock()
	for _, s := range services {
		s.screenAddr(a)
	}
}

// countOffered counts what members offer in place of what others did before.
func (s *watchedService) countOffered(before, now []contribution) {
	count := func(m Member, old, new *contribution) {
		var from, to offer
		if old != nil {
			from = old.raw
		}
		if new != nil {
			to = new.raw
		}
		if m.Cluster != Local {
			s.table.offered.replace(from, to)
		}
	}
	for i := range now {
		count(now[i].member, memberIn(before, now[i].member), &now[i])
	}
	for i := range before {
		if m := before[i].member; memberIn(now, m) == nil {
			count(m, &before[i], nil)
		}
	}
}
