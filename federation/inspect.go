package federation

import (
	"cmp"
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
		states[c] = l.state
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
// now, watched or not, sorted by service and then in definition order. It calls
// Source.State for every such member, so it takes longer the more there are.
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
			status := MemberStatus{Link: l.state}
			if l.state == Ready {
				status.Service = l.src.State(m.Service)
			}
			if !status.Serving() {
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
	Offered int    // endpoints on offer
	Yielded int    // how many of their addresses another member wins
	Updates uint64 // how often its contribution has changed since the port is watched
}

// Watched lists all watched ports, sorted by service and port.
func (t *Table) Watched() []WatchedPort {
	t.mu.Lock()
	services := slices.Collect(maps.Values(t.watched))
	t.mu.Unlock()
	list := make([]WatchedPort, 0, len(services))
	for _, s := range services {
		for _, p := range s.snapshots() {
			list = append(list, p.count(s.id))
		}
	}
	slices.SortFunc(list, func(a, b WatchedPort) int { return cmp.Or(a.Service.compare(b.Service), cmp.Compare(a.Port, b.Port)) })
	return list
}

// portSnapshot is a copy of a port's fields, to be read without its lock.
type portSnapshot struct {
	number    uint16
	members   []contribution
	offers    []offer
	contested []netip.AddrPort
}

func (s *watchedService) snapshots() []portSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]portSnapshot, 0, len(s.ports))
	for _, p := range s.ports {
		list = append(list, portSnapshot{p.number, slices.Clone(p.members), slices.Clone(p.offers), slices.Collect(maps.Keys(p.contested))})
	}
	return list
}

// count counts what the members offer. An address that one member offers in two
// slices is not yielded.
func (p *portSnapshot) count(id ServiceID) WatchedPort {
	w := WatchedPort{Service: id, Port: p.number, Members: make([]WatchedMember, len(p.members))}
	for i, c := range p.members {
		w.Members[i] = WatchedMember{Member: c.member, Status: c.status, Updates: c.updates}
		for _, s := range p.offers[i] {
			w.Members[i].Offered += len(s.Endpoints)
		}
	}
	for i, n := range p.yields() {
		w.Members[i].Yielded = n
	}
	return w
}

// yields counts, for each member, the addresses that an earlier member wins.
func (p *portSnapshot) yields() []int {
	const none = -1
	last := make(map[netip.AddrPort]int, len(p.contested)) // the last member so far that offers it
	for _, addr := range p.contested {
		last[addr] = none
	}
	counts := make([]int, len(p.offers))
	if len(last) == 0 {
		return counts
	}
	for i, o := range p.offers {
		for _, s := range o {
			for _, e := range s.Endpoints {
				before, contested := last[e.Addr]
				if !contested || before == i {
					continue
				}
				last[e.Addr] = i
				if before != none {
					counts[i]++
				}
			}
		}
	}
	return counts
}
