package federation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// TierChange is a change of the tiers that clients of a zone use of a service: of those of
// its ports where most are in use. Clients of an instance do not count.
type TierChange struct {
	Service    ServiceID
	Zone       string // of the clients; empty: not known
	Preference *Preference
	From, To   int    // how many tiers were and are in use, from the first. One more than there are: last resort too
	Why        string // in words for a log
}

// tierReport is how often the tiers of a watched service have changed.
type tierReport struct {
	changed         bool   // the tiers of a whole service's client have changed since the last report
	spills, returns uint64 // how often clients of a zone have got more tiers, and fewer
}

// tierUser is one kind of client of a steered port.
type tierUser struct {
	port     uint16
	steering *steering
	*published
}

// worse reports whether more tiers are in use, or as many and since later: what is reported is
// why that has changed. Between equals the order is any, and always the same.
func (u tierUser) worse(than tierUser) bool {
	return cmp.Or(cmp.Compare(u.tiers.inUse, than.tiers.inUse), u.tiers.since.Compare(than.tiers.since),
		cmp.Compare(than.port, u.port), cmp.Compare(than.client.Node, u.client.Node)) > 0
}

// worst returns, by zone, the client that uses most tiers now, and how many any used before.
func (s *watchedService) worst() (now map[string]tierUser, before map[string]int) {
	now, before = make(map[string]tierUser), make(map[string]int)
	for _, p := range s.ports {
		if p.steering == nil {
			continue
		}
		for _, to := range p.whole() {
			zone := to.client.Zone
			before[zone] = max(before[zone], to.tiers.reported)
			if u, w := (tierUser{p.number, p.steering, to}), now[zone]; w.published == nil || u.worse(w) {
				now[zone] = u
			}
		}
	}
	return now, before
}

// reportTiers reports changes of the tiers in use. That a client comes or goes, which others
// may not have in common with it, is none.
func (s *watchedService) reportTiers() {
	if !s.tiers.changed {
		return
	}
	s.tiers.changed = false
	worst, before := s.worst()
	for _, zone := range slices.Sorted(maps.Keys(worst)) {
		from, w := before[zone], worst[zone]
		to := w.tiers.inUse
		switch {
		case from == to:
			continue
		case from < to:
			s.tiers.spills++
		default:
			s.tiers.returns++
		}
		if report := s.table.opts.ReportTiers; report != nil {
			report(TierChange{s.id, zone, w.steering.preference, from, to, w.tiers.why.describe(w.steering)})
		}
	}
	for _, p := range s.ports {
		if p.steering == nil {
			continue
		}
		for _, to := range p.whole() {
			to.tiers.reported = to.tiers.inUse
		}
	}
}

// Tiers are those in use now, in words.
func (c TierChange) Tiers() string { return c.Preference.firstTiers(c.To) }

// describe is the row in words.
func (r row) describe(st *steering) string {
	names, limit := st.preference.firstTiers(r.tiers), st.preference.MinReady
	if limit.Percent == 0 {
		return fmt.Sprintf("%s: %d ready, min-ready is %v", names, r.ready, limit)
	}
	return fmt.Sprintf("%s: %d of %d ready, min-ready is %v", names, r.ready, r.known, limit)
}

// SteeredService is a watched service whose clients do not simply get everything: it has a
// preference, or a member's cluster is taken out.
type SteeredService struct {
	Service         ServiceID
	Preference      *Preference     // never nil
	Spills, Returns uint64          // how often clients have got more, and fewer, tiers since the service is watched
	InUse           map[string]int  // the number of tiers in use, by the clients' zone
	Clients         []SteeredClient // sorted by port, instance, zone and node; if there are very many, some of them
	MoreClients     int             // how many are left out
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
	one := SteeredService{Service: s.id, Spills: s.tiers.spills, Returns: s.tiers.returns}
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
		one.InUse[zone] = w.tiers.inUse
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
	Port     uint16
	Client   Client
	Tiers    []TierUse // in order; the last may be that of clusters of last resort
	Since    time.Time // since when those in use are in use
	Why      string    // why they were taken into use then, in words
	WaitsFor string    // what must come before clients use fewer tiers; empty if they use one, or some of the endpoints leave at Next
	Next     time.Time // when endpoints leave unless something changes before; zero if none does
}

// TierUse is what one tier has, and how much of it clients get.
type TierUse struct {
	Tier  string // in words
	InUse bool
	Ready int
	Known int // ready or not, if min-ready is a percentage; otherwise 0
	Sent  int // to these clients
}

// describeClient describes what one kind of client uses.
func (p *port) describeClient(to *published) *SteeredClient {
	st, v := p.steering, to.tiers
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
		one.WaitsFor = st.preference.firstTiers(st.tiers) + ": none is ready"
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
		tier := TierUse{
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
