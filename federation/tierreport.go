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
	moved           bool   // the tiers of a whole service's client have changed since the last report
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
	return cmp.Or(cmp.Compare(u.tiers.used, than.tiers.used), u.tiers.since.Compare(than.tiers.since),
		cmp.Compare(than.port, u.port), cmp.Compare(than.client.Node, u.client.Node)) > 0
}

// worst returns, by zone, the client that uses most tiers now, and how many any used before.
func (s *watchedService) worst() (now map[string]tierUser, before map[string]int) {
	now, before = make(map[string]tierUser), make(map[string]int)
	for _, p := range s.ports {
		if p.steering == nil {
			continue
		}
		for to := range p.whole.each {
			zone := to.client.Zone
			before[zone] = max(before[zone], to.tiers.before)
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
	if !s.tiers.moved {
		return
	}
	s.tiers.moved = false
	worst, before := s.worst()
	for _, zone := range slices.Sorted(maps.Keys(worst)) {
		from, w := before[zone], worst[zone]
		to := w.tiers.used
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
		for to := range p.whole.each {
			to.tiers.before = to.tiers.used
		}
	}
}

// tiersInUse returns how many tiers are in use, by zone.
func (s *watchedService) tiersInUse() map[string]int {
	worst, _ := s.worst()
	inUse := make(map[string]int, len(worst))
	for zone, w := range worst {
		inUse[zone] = w.tiers.used
	}
	return inUse
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
	Preference      *Preference
	Spills, Returns uint64         // how often clients have got more, and fewer, tiers since the service is watched
	InUse           map[string]int // the number of tiers in use, by the clients' zone
	Views           []SteeredView  // sorted by port, instance, zone and node; if there are very many, some of them
	MoreViews       int            // how many are left out
}

// TiersFor are those that clients of a zone use, in words.
func (s SteeredService) TiersFor(zone string) string { return s.Preference.firstTiers(s.InUse[zone]) }

// SteeredView is what one kind of client uses of a service port.
type SteeredView struct {
	Preference *Preference // of the service; never nil
	Port       uint16
	Client     Client
	Tiers      []TierUse // in order; the last is that of last resort, if there is any
	InUse      int       // how many of Tiers are in use, from the first
	Since      time.Time
	Why        string    // why these are in use
	Next       time.Time // when endpoints leave next, unless something changes before; zero: none do
}

// TierUse is what one tier has.
type TierUse struct {
	Name         string
	Ready, Known int // endpoints; Known only matters, and is only counted, with a limit in percent
	Sent         int // of the endpoints that clients get
}

// maxViews is how many views of a service a page shows.
const maxViews = 100

// Steered lists the watched services that are steered, sorted.
func (t *Table) Steered() []SteeredService { return t.steered(maxViews) }

// TiersInUse is Steered without what takes long: Views and MoreViews.
func (t *Table) TiersInUse() []SteeredService { return t.steered(0) }

func (t *Table) steered(views int) []SteeredService {
	t.mu.Lock()
	services := slices.Collect(maps.Values(t.watched))
	t.mu.Unlock()
	var list []SteeredService
	for _, s := range services {
		if one, ok := s.describeSteered(views); ok {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b SteeredService) int { return a.Service.compare(b.Service) })
	return list
}

// describeSteered describes the service, with at most so many views.
func (s *watchedService) describeSteered(most int) (one SteeredService, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(s.ports)) {
		p := s.ports[number]
		if p.steering == nil {
			continue
		}
		one.Preference, ok = p.steering.preference, true
		if most > 0 {
			one.addViews(p, most)
		}
	}
	if !ok {
		return one, false
	}
	slices.SortFunc(one.Views, SteeredView.compare)
	one.Service, one.Spills, one.Returns, one.InUse = s.id, s.tiers.spills, s.tiers.returns, s.tiersInUse()
	return one, true
}

// addViews adds a port's views, up to so many of the service.
func (one *SteeredService) addViews(p *port, most int) {
	for to := range p.all {
		if len(one.Views) < most {
			one.Views = append(one.Views, p.steering.view(p.number, to))
		} else {
			one.MoreViews++
		}
	}
}

// view describes what one kind of client uses.
func (st *steering) view(port uint16, to *published) SteeredView {
	v := to.tiers
	view := SteeredView{Preference: st.preference, Port: port, Client: to.client, InUse: v.used, Since: v.since, Why: v.why.describe(st), Next: v.due}
	sent := make([]int, st.unnamed()+1)
	set, _ := to.latest.Get()
	for _, e := range set.Endpoints {
		sent[st.tierOf(e, to.client.Zone)]++
	}
	for i := range st.unnamed() {
		if i == st.lastResort() && v.counts.known[i] == 0 && v.used <= i {
			break
		}
		view.Tiers = append(view.Tiers, TierUse{st.preference.tierName(i), v.counts.ready[i], v.counts.known[i], sent[i]})
	}
	return view
}

func (v SteeredView) compare(o SteeredView) int {
	return cmp.Or(cmp.Compare(v.Port, o.Port), cmp.Compare(v.Client.Instance, o.Client.Instance),
		cmp.Compare(v.Client.Zone, o.Client.Zone), cmp.Compare(v.Client.Node, o.Client.Node))
}
