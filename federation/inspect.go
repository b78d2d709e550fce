package federation

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Unserved describes a member that cannot be reached, or that does not contribute endpoints.
type Unserved struct {
	Service ServiceID
	Member  Member
	Status  MemberStatus
}

// WatchedPort describes a watched port of a service.
type WatchedPort struct {
	Service    ServiceID
	Port       uint16
	Undeclared bool // see Set.Undeclared

	// Members is sorted by precedence. If the service is not defined, or is a mirror that does not
	// specify its remote Service, Members is empty.
	Members []WatchedMember
}

// WatchedMember describes the contribution of a member to a watched port.
type WatchedMember struct {
	Member    Member
	Status    MemberStatus
	NodeLocal bool     // whether internalTrafficPolicy of its Service is Local
	Standing  Standing // standing of its cluster
	Spreading bool     // whether the standing of its cluster is changing gradually
	Lost      bool     // whether its cluster is withdrawn only because its API cannot be watched
	Updates   uint64   // number of changes to its contribution since the port was first watched
	// Total is the sum of Updates over all services that include the member. Total does not
	// decrease while any service that includes the member is watched.
	Total   uint64
	Changed time.Time // time of the last such change; zero if there was none
	Offered int       // number of offered endpoints, including refused ones
	Yielded int       // number of offered addresses for which another member takes precedence

	Conflicts []Conflict // a few of the addresses for which another member takes precedence
	Refused   Refused    // the refused endpoints
	Ports     []uint16   // only in an Explanation: a few of the ports of its addresses, sorted
}

// Conflict describes an address that a member offers, but for which another member takes
// precedence.
type Conflict struct {
	Addr   netip.AddrPort
	Winner Member
}

// String describes the address and the winning member.
func (c Conflict) String() string {
	return fmt.Sprintf("%v is sent from %v of cluster %v", c.Addr, c.Winner.Service, c.Winner.Cluster)
}

func describePort(p *port, list []WatchedMember) []WatchedMember {
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
	countYields(p, list)
	return list
}

// For each member, countYields counts the offered addresses for which another member takes
// precedence. An address that only one member offers does not count, even if several slices contain
// it.
func countYields(p *port, members []WatchedMember) {
	const none = -1
	type holders struct{ first, last int } // the members found so far that offer the address
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

// SteeredService describes a watched service whose endpoints depend on a preference or on the
// standing of a cluster.
type SteeredService struct {
	Service           ServiceID
	Preference        *Preference     // never nil
	Spills, FailBacks uint64          // changes to more tiers, and to fewer tiers, since the service was first watched
	InUse             map[string]int  // number of tiers in use, by the clients' zone
	Clients           []SteeredClient // sorted by port, instance, zone and node; at most maxClients
	MoreClients       int             // number of further kinds of clients
}

// TiersFor returns, in annotation syntax, the tiers that clients in a zone use.
func (s SteeredService) TiersFor(zone string) string { return s.Preference.firstTiers(s.InUse[zone]) }

const maxClients = 100

// describeSteered returns a nil Preference if the service is broken or not steered.
func describeSteered(s *watchedService, clients bool) SteeredService {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := SteeredService{Service: s.id, Spills: s.tierChanges.spills, FailBacks: s.tierChanges.failBacks}
	if s.broken {
		return one
	}
	for _, p := range declaredFirst(s) {
		if p.steering == nil {
			continue
		}
		one.Preference = p.steering.preference
		for _, to := range p.all() {
			switch {
			case !clients:
			case len(one.Clients) < maxClients:
				one.Clients = append(one.Clients, *describeClient(p, to))
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
		one.InUse[zone] = w.tierUsage.inUse
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

// declaredFirst returns the watched ports, with declared ports first. If undeclared ports came
// first, clients that request many of them could fill all maxClients entries.
func declaredFirst(s *watchedService) []*port {
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

// SteeredClient describes which tiers one kind of client uses.
type SteeredClient struct {
	Port   uint16
	Client Client
	Tiers  []TierStatus // in order, possibly with a last one for clusters of last resort
	Since  time.Time    // when the current tiers came into use
	Why    string       // why the current tiers came into use, as text
	// WaitsFor describes the condition under which clients will use fewer tiers. If clients use
	// only one tier, or if Next is set, WaitsFor is empty.
	WaitsFor string
	Next     time.Time // when endpoints are next dropped, if nothing changes; zero if none are
}

// TierStatus describes one tier, including the number of its endpoints that are sent to clients.
type TierStatus struct {
	Tier  string
	InUse bool
	Ready int
	Known int // number of endpoints, ready or not; zero unless min-ready is a percentage
	Sent  int // number of endpoints sent to these clients
}

func describeClient(p *port, to *published) *SteeredClient {
	st, v := p.steering, to.tierUsage
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
