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

// MaxUndeclaredPorts is the maximum number of undeclared ports that can be watched per service. A
// port is undeclared if no member is known to declare it. Without a limit, clients could overload a
// replica by requesting many ports, because each port is read and merged separately.
const MaxUndeclaredPorts = 64

type watchedService struct {
	table  *Table // fixed, as are id, number and again
	id     ServiceID
	number uint32 // key in Table.numbered
	again  func() // rebuilds the service under supervision

	refs   int         // number of watches; guarded by table.mu
	byNode atomic.Bool // whether the sets depend on the client's node

	// mu is held while sources are read, and while the results are merged and published.
	mu          sync.Mutex
	ports       map[uint16]*port
	broken      bool // whether a panic left ports half changed (see restore)
	steered     bool // whether any port is steered, or was at the last call of reschedule
	tierChanges tierChanges
}

func newWatchedService(t *Table, id ServiceID, number uint32) *watchedService {
	s := &watchedService{table: t, id: id, number: number, ports: make(map[uint16]*port)}
	s.again = func() { t.rebuild(s) }
	return s
}

func (s *watchedService) rebuild() {
	s.change(func() {
		in := s.table.inputs(s.id)
		for _, p := range s.ports {
			p.rebuild(in, false)
		}
	})
}

func (s *watchedService) readMember(m Member, at time.Time) {
	s.change(func() {
		for _, p := range s.ports {
			p.read(m, at)
		}
	})
}

func (s *watchedService) screenAddr(a netip.Addr) {
	s.change(func() {
		for _, p := range s.ports {
			p.screenAddr(a)
		}
	})
}

func (s *watchedService) tick() {
	s.change(func() {
		now := s.table.opts.Now()
		for _, p := range s.ports {
			p.tick(now)
		}
	})
}

func (s *watchedService) finishUnwatch() { s.change(func() {}) }

// The change method holds s.mu while it calls f, which publishes a change. If the service is
// broken, the change method does not call f, but restores the service and thereby publishes all
// changes.
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

// The finish method reschedules the service, and reports changes to its tiers. The finish method
// must be called only after all ports of the service have been updated.
func (s *watchedService) finish() {
	s.reschedule()
	s.reportTiers()
}

// The locked method holds s.mu while it calls f. If f panics, the service is marked as broken, but
// the panic is not recovered.
func (s *watchedService) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := false
	defer func() { s.broken = s.broken || !done }()
	f()
	done = true
}

// isBroken waits until no update is running, and then reports whether the service is broken.
func (s *watchedService) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// The restore method rebuilds a broken service from scratch. Only the watches and the last
// published sets are reused, because the panic may have left all other state inconsistent.
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
			to.tierUsage = nil // tier usage restarts with the clients' current endpoints
		}
		clear(p.failingBack)
		p.hinted = hintIndex{}
		p.rebuild(in, true)
	}
	s.steered = true // reschedule corrects this value
	s.finish()
	s.broken = false
}

// The watch method returns the published sets for the key, and reports whether unwatch must be
// called when the watch is closed. If the key is not watched yet, it is added.
//
// If the service is broken and the key is already watched, the returned sets may be out of date. If
// the service is broken and the key is not watched yet, the watch method first rebuilds the
// service.
//
// If the port is undeclared and MaxUndeclaredPorts is reached, the key is not added, and the
// returned set has the reason TooManyPorts.
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

// The add method publishes the first set for a key. If the port is undeclared and
// MaxUndeclaredPorts is reached, the result is nil. After a panic, entries without watches may
// remain until the service is restored.
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

// undeclaredPorts returns the number of watched ports that no member is known to declare. The ports
// that a pending cluster declares are not yet known, so they count as undeclared unless another
// member declares them. After startup, only a newly linked cluster can be pending, because a
// starting replica does not serve proxies while any cluster is pending.
func (s *watchedService) undeclaredPorts() (n int) {
	for _, p := range s.ports {
		if !slices.ContainsFunc(p.members, contribution.declares) {
			n++
		}
	}
	return n
}

// unwatch closes one watch on the key, and reports whether finishUnwatch must be called. If the
// service is broken, unwatch leaves the cleanup to the restore method.
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
			sooner(to.tierUsage.due)
		}
	}
	s.table.schedule.set(s, due)
}

type tierChanges struct {
	changed           bool   // whether a client of the whole service uses other tiers than last reported
	spills, failBacks uint64 // how often clients in a zone began to use more tiers, and fewer tiers
}

func (s *watchedService) noteTiers(to *published) {
	if to.tierUsage != nil && to.tierUsage.reported != to.tierUsage.inUse && to.client.Instance == "" {
		s.tierChanges.changed = true
	}
}

// reportTiers reports changes to the number of tiers that clients use. If a client appears or
// disappears, reportTiers does not report a change, even if that client uses more tiers than any
// other client in the same zone.
func (s *watchedService) reportTiers() {
	if !s.tierChanges.changed {
		return
	}
	s.tierChanges.changed = false
	worst, before := s.worst()
	for _, zone := range slices.Sorted(maps.Keys(worst)) {
		w := worst[zone]
		from := before[zone]
		to := w.tierUsage.inUse
		switch {
		case from == to:
			continue
		case from < to:
			s.tierChanges.spills++
		default:
			s.tierChanges.failBacks++
		}
		if report := s.table.opts.ReportTiers; report != nil {
			report(TierChange{s.id, zone, w.steering.preference, from, to, w.tierUsage.why.describe(w.steering)})
		}
	}
	for _, p := range s.ports {
		if p.steering == nil {
			continue
		}
		for _, to := range p.whole() {
			to.tierUsage.reported = to.tierUsage.inUse
		}
	}
}

// watchedService.worst returns two maps, both keyed by zone. The first map contains, for each zone,
// the client that currently uses the most tiers. The second map contains, for each zone, the
// largest number of tiers that any client used when tiers were last reported.
func (s *watchedService) worst() (now map[string]tierUser, before map[string]int) {
	now = make(map[string]tierUser)
	before = make(map[string]int)
	for _, p := range s.ports {
		if p.steering == nil {
			continue
		}
		for _, to := range p.whole() {
			zone := to.client.Zone
			before[zone] = max(before[zone], to.tierUsage.reported)
			u := tierUser{p.number, p.steering, to}
			if w := now[zone]; w.published == nil || u.worse(w) {
				now[zone] = u
			}
		}
	}
	return now, before
}

type tierUser struct {
	port     uint16
	steering *steering
	*published
}

// tierUser.worse reports whether a client is worse off than another client. A client that uses more
// tiers is worse off. If both clients use the same number of tiers, the client whose tiers changed
// more recently is considered worse off, because TierChange.Why describes the latest change. Ports
// and nodes are compared only to make the order deterministic.
func (u tierUser) worse(than tierUser) bool {
	return cmp.Or(
		cmp.Compare(u.tierUsage.inUse, than.tierUsage.inUse),
		u.tierUsage.since.Compare(than.tierUsage.since),
		cmp.Compare(than.port, u.port),
		cmp.Compare(than.client.Node, u.client.Node),
	) > 0
}

// TierChange describes a change in the number of tiers that clients in a zone use. If the ports of
// the service use different numbers of tiers, TierChange describes the ports that use the most
// tiers. Clients that request a single instance are ignored.
type TierChange struct {
	Service    ServiceID
	Zone       string // the clients' zone; empty if unknown
	Preference *Preference
	From, To   int    // number of leading tiers in use; one more than all tiers includes last resort
	Why        string // the reason, as text for a log
}

// Tiers returns the tiers currently in use, in annotation syntax.
func (c TierChange) Tiers() string { return c.Preference.firstTiers(c.To) }

// The copies method returns copies of the service's ports. The copies overwrite the given list, to
// reuse its memory.
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
