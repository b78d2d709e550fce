package federation

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
)

// offeredAddrs has which watched services linked clusters offer an address to, so that a
// change of an address that none of them offers costs one look-up, and one of another
// address concerns those services only. Nothing here that there is one of for each address
// has pointers, to be cheap for the garbage collector, and keys have no more bytes than they
// need.
type offeredAddrs struct {
	mu   sync.Mutex          // a leaf in the lock order
	v4   map[[4]byte]uint32  // the first use of each address
	v6   map[[16]byte]uint32 // as v4
	uses [][]addrUse         // usesChunk each: all but the first, which is nil, by number
	free uint32              // the first use that is none, which its next one follows; 0: there is none
}

// addrUse is how often an address is offered to one service.
type addrUse struct {
	service uint32 // its number, or everyService
	count   uint32
	next    uint32 // another use of the address; 0: there is none
}

const (
	usesChunk = 1024
	// maxUses is how many services are kept of an address. If more have it, like that of
	// a Linkerd gateway, it has one use with everyService: to search them would take longer than
	// to screen some that do not have it.
	maxUses      = 256
	everyService = 0
)

func newOfferedAddrs() offeredAddrs {
	return offeredAddrs{v4: make(map[[4]byte]uint32), v6: make(map[[16]byte]uint32)}
}

// services returns the numbers of the services to which linked clusters offer the address,
// in no order; every: any service may be one.
func (o *offeredAddrs) services(a netip.Addr) (numbers []uint32, every bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := uint32(0)
	if a = a.Unmap(); a.Is4() {
		at = o.v4[a.As4()]
	} else {
		at = o.v6[a.As16()]
	}
	for at != 0 {
		use := o.use(at)
		if use.service == everyService {
			return nil, true
		}
		numbers, at = append(numbers, use.service), use.next
	}
	return numbers, false
}

// replace counts a member's offer to a service in place of the one before.
func (o *offeredAddrs) replace(service uint32, old, new offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	forEachOffered(old, new, func(a, b *Endpoint) {
		switch {
		case a == nil:
			o.add(b.Addr.Addr(), service, 1)
		case b == nil:
			o.add(a.Addr.Addr(), service, -1)
		}
	})
}

// add counts an address of a service once more, or less. o.mu is held.
func (o *offeredAddrs) add(a netip.Addr, service uint32, n int) {
	if a = a.Unmap(); a.Is4() {
		addTo(o.v4, a.As4(), o, service, n)
	} else {
		addTo(o.v6, a.As16(), o, service, n)
	}
}

func addTo[K comparable](first map[K]uint32, key K, o *offeredAddrs, service uint32, n int) {
	was := first[key]
	switch now := o.count(was, service, n); now {
	case was:
	case 0:
		delete(first, key)
	default:
		first[key] = now
	}
}

// count counts a service once more, or less, among the uses of an address, of which it gets and
// returns the first.
func (o *offeredAddrs) count(first, service uint32, n int) uint32 {
	before, length := uint32(0), 0
	for at := first; at != 0; before, at = at, o.use(at).next {
		length++
		use := o.use(at)
		if use.service != service && use.service != everyService {
			continue
		}
		if use.count = uint32(int(use.count) + n); use.count > 0 {
			return first
		}
		next := use.next
		o.drop(at)
		if before == 0 {
			return next
		}
		o.use(before).next = next
		return first
	}
	if length < maxUses {
		return o.keep(addrUse{service, uint32(n), first})
	}
	all := addrUse{service: everyService, count: uint32(n)}
	for at := first; at != 0; {
		use := *o.use(at)
		all.count += use.count
		o.drop(at)
		at = use.next
	}
	return o.keep(all)
}

// use returns the use with a number, which is not 0.
func (o *offeredAddrs) use(at uint32) *addrUse { return &o.uses[at/usesChunk][at%usesChunk] }

// keep stores a use, and returns its number.
func (o *offeredAddrs) keep(u addrUse) uint32 {
	if o.free == 0 {
		from := uint32(len(o.uses)) * usesChunk
		o.uses = append(o.uses, make([]addrUse, usesChunk))
		for at := max(1, from); at < from+usesChunk; at++ {
			o.drop(at)
		}
	}
	at := o.free
	o.free, *o.use(at) = o.use(at).next, u
	return at
}

// drop makes a use free.
func (o *offeredAddrs) drop(at uint32) { *o.use(at), o.free = addrUse{next: o.free}, at }

// OwnerChanged asks the local cluster's Owner again about an address, and publishes what
// that changes: an address that has got an owner leaves linked clusters' endpoints, and
// one that has lost it comes back. It costs one look-up unless a linked cluster offers
// the address to a watched port.
func (t *Table) OwnerChanged(a netip.Addr) {
	numbers, every := t.offered.services(a)
	if len(numbers) == 0 && !every {
		return
	}
	var services []*watchedService
	t.mu.Lock()
	for _, n := range numbers {
		if s := t.numbered[n]; s != nil {
			services = append(services, s)
		}
	}
	if every {
		services = slices.Collect(maps.Values(t.watched))
	}
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
			s.table.offered.replace(s.number, from, to)
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
