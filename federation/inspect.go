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
	return maps.Collect(t.definitions.inChunks(&t.mu))
}

// Defined reports whether a service has a definition.
func (t *Table) Defined(id ServiceID) bool {
	return t.definition(id) != nil
}

// watchedNow returns all watched services. While services begin or cease to be watched, the result may have
// some of these.
func (t *Table) watchedNow() []*watchedService {
	var list []*watchedService
	seen := make(map[*watchedService]bool)
	for _, s := range t.watched.inChunks(&t.mu) {
		if !seen[s] {
			seen[s] = true
			list = append(list, s)
		}
	}
	return list
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
	NodeLocal bool     // internalTrafficPolicy of its Service is Local
	Standing  Standing // of its cluster
	Spreading bool     // its cluster's standing changes part by part
	Lost      bool     // its cluster is withdrawn because its API is not followed, and not by hand
	Updates   uint64   // how often its contribution has changed since the port is watched
	// Total is the sum of the Updates of all services that have the member, since the first of them is watched. It
	// never falls while one of them is watched.
	Total   uint64
	Changed time.Time // when it did last; zero: not since then
	Offered int       // endpoints on offer, refused ones too
	Yielded int       // how many of their addresses another member wins

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
	slices.SortFunc(list, func(a, b WatchedPort) int {
		return cmp.Or(a.Service.compare(b.Service), cmp.Compare(a.Port, b.Port))
	})
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

// describe adds the port's members to a list.
func (p *port) describe(list []WatchedMember) []WatchedMember {
	for i := range p.members {
		c := &p.members[i]
		m := WatchedMember{
			Member:    c.member,
			Status:    c.status,
			NodeLocal: c.nodeLocal,
			Updates:   c.updates,
			Total:     c.total.n.Load(),
			Changed:   c.changed,
			Refused:   c.refused(),
		}
		if p.steering != nil {
			where := &p.steering.members[i]
			m.Standing = where.standing
			m.Spreading = where.spread != nil
			m.Lost = where.lost
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

// SteeredService is a watched service whose clients do not simply get everything: it has a
// preference, or a member's cluster is taken out.
type SteeredService struct {
	Service           ServiceID
	Preference        *Preference     // never nil
	Spills, FailBacks uint64          // how often clients have got more, and fewer, tiers since the service is watched
	InUse             map[string]int  // the number of tiers in use, by the clients' zone
	Clients           []SteeredClient // sorted by port, instance, zone and node; if there are very many, some of them
	MoreClients       int             // how many are left out
}

// TiersFor are those that clients of a zone use, in words.
func (s SteeredService) TiersFor(zone string) string { return s.Preference.firstTiers(s.InUse[zone]) }

// maxClients is how many kinds of clients of a service a page shows.
const maxClients = 100

// Steered lists the watched services that are steered, sorted. clients: with Clients and MoreClients, which take long.
func (t *Table) Steered(clients bool) []SteeredService {
	var list []SteeredService
	for _, s := range t.watchedNow() {
		if one := s.describeSteered(clients); one.Preference != nil {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b SteeredService) int { return a.Service.compare(b.Service) })
	return list
}

// describeSteered describes the service, with its first kinds of clients if that is asked for. If
// it is not steered, or broken, Preference is nil.
func (s *watchedService) describeSteered(clients bool) SteeredService {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := SteeredService{Service: s.id, Spills: s.tierChanges.spills, FailBacks: s.tierChanges.failBacks}
	if s.broken {
		return one
	}
	for _, p := range s.declaredFirst() {
		if p.steering == nil {
			continue
		}
		one.Preference = p.steering.preference
		for _, to := range p.all() {
			switch {
			case !clients:
			case len(one.Clients) < maxClients:
				one.Clients = append(one.Clients, *p.describeClient(to))
			default:
				one.MoreClients++
			}
		}
	}
	if one.Preference == nil {
		return one
	}
	worst, _ := s.worst()
	one.InUse = make(map[string]int, len(worst))
	for zone, w := range worst {
		one.InUse[zone] = w.tierView.inUse
	}
	slices.SortFunc(one.Clients, func(a, b SteeredClient) int {
		return cmp.Or(
			cmp.Compare(a.Port, b.Port),
			cmp.Compare(a.Client.Instance, b.Client.Instance),
			cmp.Compare(a.Client.Zone, b.Client.Zone),
			cmp.Compare(a.Client.Node, b.Client.Node),
		)
	})
	return one
}

// declaredFirst returns the watched ports, the undeclared ones last. Clients can make up many of
// these, and a page shows only maxClients kinds of clients.
func (s *watchedService) declaredFirst() []*port {
	rank := func(p *port) int {
		if p.summary.undeclared {
			return 1
		}
		return 0
	}
	return slices.SortedFunc(maps.Values(s.ports), func(a, b *port) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.number, b.number))
	})
}

// SteeredClient is what one kind of client of a steered port uses.
type SteeredClient struct {
	Port   uint16
	Client Client
	Tiers  []TierStatus // in order; the last may be that of clusters of last resort
	Since  time.Time    // since when those in use are in use
	Why    string       // why they were taken into use then, in words
	// WaitsFor is what must come before clients use fewer tiers. It is empty if they use one, or if some of the
	// endpoints leave at Next.
	WaitsFor string
	Next     time.Time // when endpoints leave unless something changes before; zero if none does
}

// TierStatus is what one tier has, and how much of it clients get.
type TierStatus struct {
	Tier  string // in words
	InUse bool
	Ready int
	Known int // ready or not, if min-ready is a percentage; otherwise 0
	Sent  int // to these clients
}

// describeClient describes what one kind of client uses.
func (p *port) describeClient(to *published) *SteeredClient {
	st, v := p.steering, to.tierView
	one := &SteeredClient{
		Port:   p.number,
		Client: to.client,
		Since:  v.since,
		Why:    v.why.describe(st),
		Next:   v.due,
	}
	switch {
	case !v.due.IsZero():
	case v.inUse > st.lastResort():
		one.WaitsFor = st.preference.firstTiers(st.tierCount) + ": none is ready"
	case v.inUse > 1:
		one.WaitsFor = v.counts.row(v.inUse - 1).describe(st)
	}

	sent := make([]int, st.unnamed()+1)
	set, _ := to.latest.Get()
	for _, e := range set.Endpoints {
		sent[st.tierOf(e, to.client.Zone)]++
	}
	for i := range st.unnamed() {
		if i == st.lastResort() && v.counts.known[i] == 0 && v.inUse <= i {
			break
		}
		tier := TierStatus{
			Tier:  st.preference.tierName(i),
			InUse: i < v.inUse,
			Ready: v.counts.ready[i],
			Sent:  sent[i],
		}
		if st.countsUnready() {
			tier.Known = v.counts.known[i]
		}
		one.Tiers = append(one.Tiers, tier)
	}
	return one
}
