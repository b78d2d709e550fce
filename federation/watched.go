package federation

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

// Watched is a port of a service that somebody watches.
type Watched struct {
	Service ServiceID
	Port    uint16
	Members []Part // in definition order; none: the service is not defined, or a mirror that says of nothing
}

// Part is what a member adds to a port that is watched.
type Part struct {
	Member  Member
	Status  MemberStatus
	Offered int    // endpoints on offer
	Yielded int    // addresses of those that another member wins
	Updates uint64 // how often that has changed since the port is watched
}

// Watched lists what somebody watches, sorted: for people and scrapes.
func (t *Table) Watched() []Watched {
	t.mu.Lock()
	services := slices.Collect(maps.Values(t.watched))
	t.mu.Unlock()
	list := make([]Watched, 0, len(services))
	for _, s := range services {
		for _, p := range s.parts() {
			list = append(list, p.tell(s.id))
		}
	}
	slices.SortFunc(list, func(a, b Watched) int { return cmp.Or(a.Service.compare(b.Service), cmp.Compare(a.Port, b.Port)) })
	return list
}

// Definitions returns what is defined. The definitions must not be written.
func (t *Table) Definitions() map[ServiceID]*Definition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.definitions)
}

// Defined tells whether a service is.
func (t *Table) Defined(id ServiceID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.definitions[id] != nil
}

// parts is a port as it is now, to be looked at without a lock.
type parts struct {
	number  uint16
	members []contribution
	offers  []offer
	shared  []netip.AddrPort
}

func (s *service) parts() []parts {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]parts, 0, len(s.ports))
	for _, p := range s.ports {
		list = append(list, parts{p.number, slices.Clone(p.members), slices.Clone(p.offers), slices.Collect(maps.Keys(p.shared))})
	}
	return list
}

// tell counts what the members offer. An address that one member offers in two
// slices is no conflict.
func (p *parts) tell(id ServiceID) Watched {
	w := Watched{Service: id, Port: p.number, Members: make([]Part, len(p.members))}
	for i, c := range p.members {
		w.Members[i] = Part{Member: c.member, Status: c.status, Updates: c.updates}
		for _, s := range p.offers[i] {
			w.Members[i].Offered += len(s.Endpoints)
		}
	}
	for i, n := range p.yields() {
		w.Members[i].Yielded = n
	}
	return w
}

// yields counts, for each member, the addresses that one before it wins.
func (p *parts) yields() []int {
	const nobody = -1
	last := make(map[netip.AddrPort]int, len(p.shared)) // who offers it, of the members so far
	for _, addr := range p.shared {
		last[addr] = nobody
	}
	counts := make([]int, len(p.offers))
	if len(last) == 0 {
		return counts
	}
	for i, o := range p.offers {
		for _, s := range o {
			for _, e := range s.Endpoints {
				before, shared := last[e.Addr]
				if !shared || before == i {
					continue
				}
				last[e.Addr] = i
				if before != nobody {
					counts[i]++
				}
			}
		}
	}
	return counts
}
