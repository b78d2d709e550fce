package federation

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
)

// The methods in this file are for metrics and debug pages. They read the state of
// the table and change nothing.

// Linked returns the state of every linked cluster.
func (t *Table) Linked() map[ClusterName]LinkState {
	t.mu.Lock()
	defer t.mu.Unlock()
	states := make(map[ClusterName]LinkState, len(t.links))
	for c, l := range t.links {
		states[c] = l.State
	}
	return states
}

// Definitions returns all definitions. They must not be written.
func (t *Table) Definitions() map[ServiceID]*Definition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.definitions)
}

// Defined reports whether a service has a definition.
func (t *Table) Defined(id ServiceID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.definitions[id] != nil
}

// Unserved is a member that does not serve.
type Unserved struct {
	Service ServiceID
	Member  Member
	Status  MemberStatus
}

// Unserved lists the members of federated and mirrored services that do not serve
// now, or can't be reached, watched or not, sorted by service and then in definition order.
// It calls Source.State for every such member, so it takes longer the more there are.
func (t *Table) Unserved() []Unserved {
	t.mu.Lock()
	definitions, links := maps.Clone(t.definitions), maps.Clone(t.links)
	t.mu.Unlock()
	var list []Unserved
	for id, d := range definitions {
		for _, m := range d.Members {
			if d.plain(m) {
				continue
			}
			l := links[m.Cluster]
			status := MemberStatus{Link: l.State}
			if l.State == Ready {
				status.Service = l.Source.State(m.Service)
			}
			if status.Serving() {
				r, ok := l.Source.(Reachable)
				status.Unreached = ok && !r.Reachable()
			}
			if !status.Serving() || status.Unreached {
				list = append(list, Unserved{id, m, status})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Unserved) int { return a.Service.compare(b.Service) })
	return list
}

// WatchedPort is a port of a service that is watched.
type WatchedPort struct {
	Service ServiceID
	Port    uint16
	Members []WatchedMember // in definition order; none: the service is not defined, or a mirror without the name of its remote Service
}

// WatchedMember is what a member contributes to a port that is watched.
type WatchedMember struct {
	Member  Member
	Status  MemberStatus
	Offered int    // endpoints on offer, refused ones too
	Yielded int    // how many of their addresses another member wins
	Updates uint64 // how often its contribution has changed since the port is watched

	Conflicts []Conflict // a few of the addresses that another member wins
	Refused   Refused    // what is refused of it
}

// Conflict is an address that a member offers and another one wins.
type Conflict struct {
	Addr   netip.AddrPort
	Winner Member
}

// String is the address and who wins it, in words for a log.
func (c Conflict) String() string {
	return fmt.Sprintf("%v is sent from %v of cluster %v", c.Addr, c.Winner.Service, c.Winner.Cluster)
}

// Watched lists all watched ports, sorted by service and port.
func (t *Table) Watched() []WatchedPort {
	var list []WatchedPort
	for w := range t.EachWatched() {
		w.Members = slices.Clone(w.Members)
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b WatchedPort) int { return cmp.Or(a.Service.compare(b.Service), cmp.Compare(a.Port, b.Port)) })
	return list
}

// EachWatched is Watched without a list, for those that only count: the Members of a port are
// overwritten by those of the next one. Services come in no order, the ports of one together.
func (t *Table) EachWatched() iter.Seq[WatchedPort] {
	return func(yield func(WatchedPort) bool) {
		t.mu.Lock()
		services := slices.Collect(maps.Values(t.watched))
		t.mu.Unlock()
		var ports []portSnapshot
		var members []WatchedMember
		for _, s := range services {
			ports = s.snapshots(ports)
			for i := range ports {
				members = ports[i].count(members)
				if !yield(WatchedPort{s.id, ports[i].number, members}) {
					return
				}
			}
		}
	}
}

// portSnapshot is a copy of a port's fields, to be read without its lock.
type portSnapshot struct {
	number    uint16
	members   []contribution
	offers    []offer // nil if nothing is contested
	contested []netip.AddrPort
}

// snapshots copies the service's ports into list, whose memory it uses again.
func (s *watchedService) snapshots(list []portSnapshot) []portSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	list = slices.Grow(list[:0], len(s.ports))
	for _, p := range s.ports {
		list = list[:len(list)+1]
		to := &list[len(list)-1]
		to.number, to.members, to.offers, to.contested = p.number, append(to.members[:0], p.members...), nil, nil
		if len(p.contested) > 0 {
			to.offers, to.contested = slices.Clone(p.offers), slices.Collect(maps.Keys(p.contested))
		}
	}
	return list
}

// count counts what the members offer, in list, whose memory it uses again. An address that
// one member offers in two slices is not yielded.
func (p *portSnapshot) count(list []WatchedMember) []WatchedMember {
	list = list[:0]
	for i := range p.members {
		c := &p.members[i]
		m := WatchedMember{Member: c.member, Status: c.status, Updates: c.updates, Refused: c.refused()}
		for _, s := range c.raw {
			m.Offered += len(s.Endpoints)
		}
		list = append(list, m)
	}
	p.addYields(list)
	return list
}

// addYields counts, for each member, the addresses that an earlier member wins.
func (p *portSnapshot) addYields(members []WatchedMember) {
	const none = -1
	type place struct{ first, last int } // members that offer it, so far
	if len(p.contested) == 0 {
		return
	}
	offered := make(map[netip.AddrPort]place, len(p.contested))
	for _, addr := range p.contested {
		offered[addr] = place{none, none}
	}
	for i, o := range p.offers {
		i %= len(members) // see steering.offers
		for _, s := range o {
			for _, e := range s.Endpoints {
				at, contested := offered[e.Addr]
				switch {
				case !contested || at.last == i:
					continue
				case at.first == none:
					at.first = i
				default:
					m := &members[i]
					if m.Yielded++; len(m.Conflicts) < maxExamples {
						m.Conflicts = append(m.Conflicts, Conflict{e.Addr, members[at.first].Member})
					}
				}
				offered[e.Addr] = place{at.first, i}
			}
		}
	}
}
