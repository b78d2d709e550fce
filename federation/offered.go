package federation

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
)

// offeredAddrs records which addresses linked clusters offer for which watched services. When the
// owner of an address changes, only the services for which linked clusters offer the address have
// to be updated.
type offeredAddrs struct {
	mu sync.Mutex // a leaf in the lock order
	v4 addrUses[[4]byte]
	v6 addrUses[[16]byte]
}

func newOfferedAddrs() offeredAddrs {
	return offeredAddrs{v4: newAddrUses[[4]byte](), v6: newAddrUses[[16]byte]()}
}

// The services method returns the numbers of the watched services for which linked clusters offer
// the address. The number of a service is its key in Table.numbered. The order of the numbers is
// unspecified.
func (o *offeredAddrs) services(a netip.Addr) []uint32 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if a = a.Unmap(); a.Is4() {
		return o.v4.services(a.As4())
	}
	return o.v6.services(a.As16())
}

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

// add adds n, which is 1 or -1, to the number of times that an address is offered for a service.
// The caller must hold o.mu.
func (o *offeredAddrs) add(a netip.Addr, service uint32, n int) {
	if a = a.Unmap(); a.Is4() {
		o.v4.add(a.As4(), service, n)
	} else {
		o.v6.add(a.As16(), service, n)
	}
}

// forget removes a service from all addresses. Searching all addresses is necessary because a panic
// may have corrupted the counts of the service.
func (o *offeredAddrs) forget(service uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.v4.forget(service)
	o.v6.forget(service)
}

// addrUses maps each offered address to the services for which it is offered. Most addresses are
// offered for a single service. To keep garbage collection cheap, the entry of an address that is
// offered for only one service does not contain pointers.
type addrUses[K comparable] struct {
	first map[K]addrUse   // one service per address
	more  map[K][]addrUse // the other services, sorted by number
}

// addrUse holds the number of times that an address is offered for one service.
type addrUse struct{ service, count uint32 }

func newAddrUses[K comparable]() addrUses[K] {
	return addrUses[K]{first: make(map[K]addrUse), more: make(map[K][]addrUse)}
}

func (u addrUses[K]) services(a K) (numbers []uint32) {
	if first, ok := u.first[a]; ok {
		numbers = append(numbers, first.service)
	}
	for _, use := range u.more[a] {
		numbers = append(numbers, use.service)
	}
	return numbers
}

func (u addrUses[K]) add(a K, service uint32, n int) {
	first, more := u.first[a], u.more[a]
	if first.count > 0 && first.service != service {
		i, has := slices.BinarySearchFunc(more, service, func(x addrUse, s uint32) int {
			return cmp.Compare(x.service, s)
		})
		if !has {
			more = slices.Insert(more, i, addrUse{service: service})
		}
		if more[i].count += uint32(n); more[i].count == 0 {
			more = slices.Delete(more, i, i+1)
		}
		u.setMore(a, more)
		return
	}
	first.service = service
	if first.count += uint32(n); first.count > 0 {
		u.first[a] = first
	} else {
		u.removeFirst(a)
	}
}

func (u addrUses[K]) removeFirst(a K) {
	more := u.more[a]
	if len(more) == 0 {
		delete(u.first, a)
		return
	}
	last := len(more) - 1
	u.first[a] = more[last]
	u.setMore(a, more[:last])
}

func (u addrUses[K]) setMore(a K, more []addrUse) {
	if len(more) > 0 {
		u.more[a] = more
	} else {
		delete(u.more, a)
	}
}

func (u addrUses[K]) forget(service uint32) {
	for a, more := range u.more {
		u.setMore(a, slices.DeleteFunc(more, func(x addrUse) bool { return x.service == service }))
	}
	for a, first := range u.first {
		if first.service == service {
			u.removeFirst(a)
		}
	}
}
