package federation

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MaxUndeclaredPorts is how many ports of a service may be watched that no member is known to
// declare. A client may ask for any port, and each port is read and merged by itself.
const MaxUndeclaredPorts = 64

// watchedService is a service that has at least one watch.
type watchedService struct {
	table  *Table // fixed, as are id, number and again
	id     ServiceID
	number uint32 // in Table.numbered
	again  func() // rebuilds the service, under supervision

	refs   int         // under table.mu: its watches
	byNode atomic.Bool // its sets depend on the client's node

	// mu is held while sources are read, and while the result is merged and
	// published.
	mu          sync.Mutex
	ports       map[uint16]*port
	broken      bool // a panic has left ports half changed: see restore
	steered     bool // a port is, or has been when reschedule was called last
	tierChanges tierChanges
}

func newWatchedService(t *Table, id ServiceID, number uint32) *watchedService {
	s := &watchedService{table: t, id: id, number: number, ports: make(map[uint16]*port)}
	s.again = func() { t.rebuild(s) }
	return s
}

// rebuild publishes what a new definition, or another link of a member's cluster,
// changes.
func (s *watchedService) rebuild() {
	s.change(func() {
		in := s.table.inputs(s.id)
		for _, p := range s.ports {
			p.rebuild(in, false)
		}
	})
}

// readMember reads one member again, and publishes what has changed.
func (s *watchedService) readMember(m Member, at time.Time) {
	s.change(func() {
		for _, p := range s.ports {
			p.read(m, at)
		}
	})
}

// screenAddr screens again what linked clusters offer at an address, and publishes what
// has changed.
func (s *watchedService) screenAddr(a netip.Addr) {
	s.change(func() {
		for _, p := range s.ports {
			p.screenAddr(a)
		}
	})
}

// tick publishes what has changed by the passing of time.
func (s *watchedService) tick() {
	s.change(func() {
		now := s.table.opts.Now()
		for _, p := range s.ports {
			p.tick(now)
		}
	})
}

// finishUnwatch does what is left to do after unwatch.
func (s *watchedService) finishUnwatch() { s.change(func() {}) }

// change calls f, which publishes a change, with s.mu held. If the service is broken,
// change restores the service instead, which publishes all changes.
func (s *watchedService) change(f func()) {
	s.locked(func() {
		if s.broken {
			s.restore()
			return
		}
		f()
		s.finish()
	})
}

// finish does what follows once all ports are up to date.
func (s *watchedService) finish() {
	s.reschedule()
	s.reportTiers()
}

// locked calls f with s.mu held. If f panics, the service is broken.
func (s *watchedService) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := false
	defer func() { s.broken = s.broken || !done }()
	f()
	done = true
}

// isBroken reports whether the service is broken. It waits for the end of an update.
func (s *watchedService) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// restore rebuilds a broken service from scratch. It uses only the watches and the sets that were
// published last, because a panic may have left everything else half changed.
func (s *watchedService) restore() {
	s.table.offered.forget(s.number)
	in := s.table.inputs(s.id)
	for number, p := range s.ports {
		p.removeUnwatched()
		if len(p.audiences) == 0 {
			delete(s.ports, number)
			s.table.countUpdates(number, p.members, nil)
			continue
		}
		for _, to := range p.all() {
			to.tierView = nil // it begins anew, with what clients have
		}
		clear(p.failingBack)
		p.hinted = hintIndex{}
		p.rebuild(in, true)
	}
	s.steered = true // reschedule corrects it
	s.finish()
	s.broken = false
}

// watch returns the sets published for the key, and whether unwatch must be called. If nobody
// watches the key yet, watch adds it. If the service is broken, a watched key keeps its set, which
// may be out of date. For a new key, watch restores the service first. If the port is undeclared
// and MaxUndeclaredPorts is reached, watch adds nothing and returns a set with the reason
// TooManyPorts.
func (s *watchedService) watch(k Key) (latest *Latest[*Set], added bool) {
	s.locked(func() {
		to := s.published(k)
		if to == nil {
			to = s.add(k)
		}
		if to == nil {
			latest = newTooManyPorts(k.Client)
			return
		}
		to.refs++
		latest = &to.latest
		added = true
	})
	return latest, added
}

// published returns what is published for a watched key. If the key is not watched, it returns nil.
func (s *watchedService) published(k Key) *published {
	p := s.ports[k.Port]
	if p == nil {
		return nil
	}
	if to := p.audiences[k.Client.Instance].find(k.Client); to != nil && to.refs > 0 {
		return to
	}
	return nil
}

// add publishes the first set for a key. If the port is undeclared and MaxUndeclaredPorts
// is reached, it returns nil. After a panic in it, restore removes what it has added, which has no
// watches.
func (s *watchedService) add(k Key) *published {
	if s.broken {
		s.restore()
	}
	p := s.ports[k.Port]
	if p == nil {
		in := s.table.inputs(s.id)
		if in.definition != nil && !in.declares(k.Port) && s.undeclaredPorts() >= MaxUndeclaredPorts {
			return nil
		}
		p = newPort(s, k.Port)
		s.ports[k.Port] = p
		p.rebuild(in, false)
	}
	to := p.join(k.Client)
	p.publish([]*published{to}, origin{})
	if k.concernsService(p) {
		s.finish()
	}
	return to
}

// undeclaredPorts counts the watched ports that no member is known to declare. Ports of a pending
// cluster count: the cluster may turn out to declare none of them, and their streams stay open. At
// a start proxies are served once no cluster is pending, so only new links are affected.
func (s *watchedService) undeclaredPorts() (n int) {
	for _, p := range s.ports {
		if !slices.ContainsFunc(p.members, contribution.declares) {
			n++
		}
	}
	return n
}

// unwatch ends one watch of the key, and reports whether finishUnwatch must be called. A broken service is
// left to restore.
func (s *watchedService) unwatch(k Key) (unfinished bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ports[k.Port]
	p.leave(k.Client)
	if s.broken {
		return false
	}
	if len(p.audiences) == 0 {
		delete(s.ports, k.Port)
		p.countOffered(p.members, nil)
		s.table.countUpdates(k.Port, p.members, nil)
	}
	return s.steered && k.concernsService(p)
}

// concernsService reports whether a watch that begins or has ended may change when the
// service is due, or what is reported of it. Those of one more instance do not: there may be
// any number, and they are due only after something else has changed.
func (k Key) concernsService(p *port) bool {
	return k.Client.Instance == "" || len(p.audiences[""]) == 0 && len(p.audiences) <= 1
}

// reschedule sets when the service is due next. It finds out whether any port is still steered.
func (s *watchedService) reschedule() {
	if !s.steered {
		return
	}
	s.steered = false
	var due time.Time
	sooner := func(at time.Time) {
		if !at.IsZero() && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	for _, p := range s.ports {
		if p.steering == nil {
			continue
		}
		s.steered = true
		sooner(p.steering.next)
		for to := range p.failingBack {
			sooner(to.tierView.due)
		}
	}
	s.table.schedule.set(s, due)
}

// tierChanges is how often the tiers of a watched service have changed.
type tierChanges struct {
	changed           bool   // the tiers of a whole service's client have changed since the last report
	spills, failBacks uint64 // how often clients of a zone have got more tiers, and fewer
}

// noteTiers notes whether clients of a kind use other tiers than at the last report.
func (s *watchedService) noteTiers(to *published) {
	if to.tierView != nil && to.tierView.reported != to.tierView.inUse && to.client.Instance == "" {
		s.tierChanges.changed = true
	}
}

// reportTiers reports changes of the tiers in use. That a client comes or goes, which others
// may not have in common with it, is none.
func (s *watchedService) reportTiers() {
	if !s.tierChanges.changed {
		return
	}
	s.tierChanges.changed = false
	worst, before := s.worst()
	for _, zone := range slices.Sorted(maps.Keys(worst)) {
		w := worst[zone]
		from := before[zone]
		to := w.tierView.inUse
		switch {
		case from == to:
			continue
		case from < to:
			s.tierChanges.spills++
		default:
			s.tierChanges.failBacks++
		}
		if report := s.table.opts.ReportTiers; report != nil {
			report(TierChange{s.id, zone, w.steering.preference, from, to, w.tierView.why.describe(w.steering)})
		}
	}
	for _, p := range s.ports {
		if p.steering == nil {
			continue
		}
		for _, to := range p.whole() {
			to.tierView.reported = to.tierView.inUse
		}
	}
}

// worst returns, by zone, the client that uses most tiers now, and how many any used before.
func (s *watchedService) worst() (now map[string]tierUser, before map[string]int) {
	now = make(map[string]tierUser)
	before = make(map[string]int)
	for _, p := range s.ports {
		if p.steering == nil {
			continue
		}
		for _, to := range p.whole() {
			zone := to.client.Zone
			before[zone] = max(before[zone], to.tierView.reported)
			u := tierUser{p.number, p.steering, to}
			if w := now[zone]; w.published == nil || u.worse(w) {
				now[zone] = u
			}
		}
	}
	return now, before
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
	return cmp.Or(
		cmp.Compare(u.tierView.inUse, than.tierView.inUse),
		u.tierView.since.Compare(than.tierView.since),
		cmp.Compare(than.port, u.port),
		cmp.Compare(than.client.Node, u.client.Node),
	) > 0
}

// TierChange is a change of the tiers that clients of a zone use of a service: of those of
// its ports where most are in use. Clients of an instance do not count.
type TierChange struct {
	Service    ServiceID
	Zone       string // of the clients; empty: not known
	Preference *Preference
	From, To   int    // how many tiers were and are in use, from the first. One more than there are: last resort too
	Why        string // in words for a log
}

// Tiers are those in use now, in words.
func (c TierChange) Tiers() string { return c.Preference.firstTiers(c.To) }

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
