package federation

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"
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

// Definitions returns all definitions. They must not be written. While definitions change, the result may have
// some of the changes and lack earlier ones.
func (t *Table) Definitions() map[ServiceID]*Definition {
	return maps.Collect(t.definitions.inParts(&t.mu))
}

// watchedNow returns all watched services. While services begin or cease to be watched, the result may have
// some of these.
func (t *Table) watchedNow() []*watchedService {
	var list []*watchedService
	seen := make(map[*watchedService]bool)
	for _, s := range t.watched.inParts(&t.mu) {
		if !seen[s] {
			seen[s] = true
			list = append(list, s)
		}
	}
	return list
}

// Defined reports whether a service has a definition.
func (t *Table) Defined(id ServiceID) bool {
	return t.definition(id) != nil
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
	links := maps.Clone(t.links)
	t.mu.Unlock()
	var list []Unserved
	for id, d := range t.Definitions() {
		for _, m := range d.Members {
			if d.plain(m) {
				continue
			}
			if s := links[m.Cluster].status(m.Service); !s.Serving() || s.Unreached {
				list = append(list, Unserved{id, m, s})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Unserved) int { return a.Service.compare(b.Service) })
	return list
}

// status returns whether the cluster's Service of that name can serve, as its source says now.
func (l link) status(id ServiceID) (s MemberStatus) {
	if s.Link = l.State; s.Link == Ready {
		s.Service = l.Source.State(id)
	}
	if s.Serving() {
		r, ok := l.Source.(Reachable)
		s.Unreached = ok && !r.Reachable()
	}
	return s
}

// WatchedPort is a port of a service that is watched.
type WatchedPort struct {
	Service    ServiceID
	Port       uint16
	Undeclared bool // see Set.Undeclared

	// in definition order; none: the service is not defined, or a mirror without the name of its
	// remote Service
	Members []WatchedMember
}

// WatchedMember is what a member contributes to a port that is watched.
type WatchedMember struct {
	Member    Member
	Status    MemberStatus
	NodeLocal bool      // internalTrafficPolicy of its Service is Local
	Standing  Standing  // of its cluster
	Spreading bool      // its cluster's standing changes part by part
	Lost      bool      // its cluster is withdrawn because its API is not followed, and not by hand
	Updates   uint64    // how often its contribution has changed since the port is watched
	Total     uint64    // the sum of the Updates of all services that have the member, since the first of them is watched. It never falls while one of them is
	Changed   time.Time // when it did last; zero: not since then
	Offered   int       // endpoints on offer, refused ones too
	Yielded   int       // how many of their addresses another member wins

	Conflicts []Conflict // a few of the addresses that another member wins
	Refused   Refused    // what is refused of it
	Ports     []uint16   // of an Explanation: those of its addresses, sorted; a few if there are many
}

// Conflict is an address that a member offers and another one wins.
type Conflict struct {
	Addr   netip.AddrPort
	Winner Member
}

// String is the address and who wins it, in words for a page.
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
		var ports []port
		var members []WatchedMember
		for _, s := range t.watchedNow() {
			ports = s.copies(ports)
			for i := range ports {
				members = ports[i].describe(members[:0])
				if !yield(WatchedPort{s.id, ports[i].number, ports[i].summary.undeclared, members}) {
					return
				}
			}
		}
	}
}

// copies copies the service's ports into list, whose memory it uses again.
func (s *watchedService) copies(list []port) []port {
	s.mu.Lock()
	defer s.mu.Unlock()
	list = slices.Grow(list[:0], len(s.ports))
	for _, p := range s.ports {
		list = list[:len(list)+1]
		p.copyTo(&list[len(list)-1])
	}
	return list
}

// copyTo copies the port, without its clients, to be read without the service's lock. It uses the
// memory of what to had before.
func (p *port) copyTo(to *port) {
	*to = port{
		number: p.number, members: append(to.members[:0], p.members...), steering: p.steering, offers: append(to.offers[:0], p.offers...),
		merged: p.merged, unready: p.unready, summary: p.summary,
	}
	if len(p.contested) > 0 {
		to.contested = maps.Clone(p.contested)
	}
}

// describe adds the port's members to a list.
func (p *port) describe(list []WatchedMember) []WatchedMember {
	for i := range p.members {
		c := &p.members[i]
		m := WatchedMember{Member: c.member, Status: c.status, NodeLocal: c.nodeLocal, Updates: c.updates, Total: c.total.n.Load(), Changed: c.changed, Refused: c.refused()}
		if st := p.steering; st != nil {
			m.Standing, m.Spreading, m.Lost = st.members[i].standing, st.members[i].spread != nil, st.members[i].lost
		}
		for _, s := range c.raw {
			m.Offered += len(s.Endpoints)
		}
		list = append(list, m)
	}
	p.countYields(list)
	return list
}

// countYields counts, for each member, the addresses that another one wins. An address that one
// member offers in two slices is not yielded.
func (p *port) countYields(members []WatchedMember) {
	const none = -1
	type holders struct{ first, last int } // members that offer it, so far
	if len(p.contested) == 0 {
		return
	}
	seen := make(map[netip.AddrPort]holders, len(p.contested))
	for addr := range p.contested {
		seen[addr] = holders{none, none}
	}
	for _, o := range p.offers {
		for _, s := range o.offer {
			for _, e := range s.Endpoints {
				at, contested := seen[e.Addr]
				switch {
				case !contested || o.member == at.first || o.member == at.last:
					continue
				case at.first == none:
					at.first = o.member
				default:
					m := &members[o.member]
					if m.Yielded++; len(m.Conflicts) < maxExamples {
						m.Conflicts = append(m.Conflicts, Conflict{e.Addr, members[at.first].Member})
					}
				}
				seen[e.Addr] = holders{at.first, o.member}
			}
		}
	}
}
