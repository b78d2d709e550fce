package federation

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
)

// offeredAddrs counts how often linked clusters offer an address to watched ports, so that a
// change of an address that none of them offers costs one look-up. Keys have no
// pointers, to be cheap for the garbage collector.
type offeredAddrs struct {
	mu    sync.Mutex // a leaf in the lock order
	count map[[16]byte]uint32
}

// has reports whether any linked cluster offers the address.
func (o *offeredAddrs) has(a netip.Addr) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count[a.As16()] > 0
}

// replace counts a member's offer in place of the one before.
func (o *offeredAddrs) replace(old, new offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	forEachOffered(old, new, func(a, b *Endpoint) {
		switch {
		case a == nil:
			o.count[b.Addr.Addr().As16()]++
		case b == nil:
			key := a.Addr.Addr().As16()
			if o.count[key]--; o.count[key] == 0 {
				delete(o.count, key)
			}
		}
	})
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
