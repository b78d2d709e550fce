package federation

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Options are a Table's. The zero value serves IPv4 only and reports nothing.
type Options struct {
	// IPv6: sets contain IPv6 addresses. Otherwise they are left out.
	IPv6 bool
	// Report is called when a member of a watched service stops serving, does not
	// serve for another reason than before, or serves again. It must neither
	// block nor call the Table. nil: not called.
	Report func(ServiceID, Member, MemberStatus)
	// ReportRefused is called, as Report, when an address that a linked cluster
	// offers to a watched port is refused and none of that member was before. n is
	// how many are.
	ReportRefused func(id ServiceID, port uint16, m Member, first Refusal, n int)
	// ReportTiers is called, as Report, when the tiers that clients of a zone use change.
	ReportTiers func(TierChange)
	// Supervise calls update, which brings a watched service up to date. If update panics, Supervise recovers, and
	// calls again after a pause. again calls Supervise. Until then clients keep what they have. of is the same for all
	// updates of one watched service. A service that is watched anew has another one. If Supervise is nil, a panic goes
	// up to the caller of the Table's method.
	Supervise func(id ServiceID, of any, update, again func())
	// Now is the time by which preferences and cordons are followed; nil: time.Now.
	Now func() time.Time
}

// Table joins definitions with clusters and publishes what clients see. All
// methods may be called at any time by any goroutine; each does its work,
// including publishing, before it returns.
type Table struct {
	opts Options // fixed

	// mu is a leaf in the lock order: it is held for map access only, never while
	// a source is read. It may be taken while a watched service's lock is held.
	// Walks over all definitions or watched services copy these in chunks.
	mu          sync.Mutex
	definitions chunkMap[ServiceID, *Definition]
	links       map[ClusterName]tableLink
	watched     chunkMap[ServiceID, *watchedService]
	numbered    map[uint32]*watchedService // those of watched, by number
	lastNumber  uint32
	byMember    map[ClusterName]map[ServiceID][]*watchedService // the lists are replaced, not written
	reported    map[serviceMember]MemberStatus                  // members that do not serve, as last reported
	updates     map[updateKey]*updateCount                      // of the members of watched services

	offered  offeredAddrs // by linked clusters, to watched ports
	schedule schedule     // of watched services that change by themselves
}

// serviceMember is one member of one service.
type serviceMember struct {
	service ServiceID
	member  Member
}

// NewTable returns an empty table.
func NewTable(o Options) *Table {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Supervise == nil {
		o.Supervise = func(_ ServiceID, _ any, update, _ func()) { update() }
	}
	return &Table{
		opts:        o,
		definitions: newChunkMap[ServiceID, *Definition](),
		links:       make(map[ClusterName]tableLink),
		watched:     newChunkMap[ServiceID, *watchedService](),
		byMember:    make(map[ClusterName]map[ServiceID][]*watchedService),
		reported:    make(map[serviceMember]MemberStatus),
		updates:     make(map[updateKey]*updateCount),
		numbered:    make(map[uint32]*watchedService),
		offered:     newOfferedAddrs(),
		schedule:    schedule{due: make(map[*watchedService]time.Time)},
	}
}

// Link sets the state of a cluster's link, with Ready also its source: SetLink for a
// cluster without conditions.
func (t *Table) Link(c ClusterName, state LinkState, src Source) {
	t.SetLink(c, Link{State: state, Source: src})
}

// Unlink removes a cluster's link, and publishes what that changes.
func (t *Table) Unlink(c ClusterName) { t.SetLink(c, Link{}) }

// SetLink sets a cluster's link, and publishes what that changes. Ready with another
// source than before replaces the old one in one step. So to rotate credentials, link the
// new source first, and stop the old one after that.
func (t *Table) SetLink(c ClusterName, l Link) {
	for _, s := range t.replaceLink(c, l) {
		t.rebuild(s)
	}
}

// replaceLink stores a link, and returns the watched services that it changes, in the order in which they are rebuilt.
func (t *Table) replaceLink(c ClusterName, l Link) (affected []*watchedService) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.links[c]
	if old.Link.equal(l) {
		return nil
	}
	if c == Local { // it has addresses that no other cluster's members may take
		for _, s := range t.watched.all {
			affected = append(affected, s)
		}
	} else {
		for _, list := range t.byMember[c] {
			affected = append(affected, list...)
		}
	}
	mixNamespaces(affected)
	if l.State == Unlinked {
		delete(t.links, c)
	} else {
		t.links[c] = old.replace(l, t.opts.Now)
	}
	return affected
}

// mixNamespaces orders services so that the first of each namespace come first, then the
// second of each, and so on: one with many services, or with large ones, does not hold up the
// others.
func mixNamespaces(list []*watchedService) {
	seen := make(map[string]int) // by namespace
	rank := make(map[*watchedService]int, len(list))
	for _, s := range list {
		rank[s] = seen[s.id.Namespace]
		seen[s.id.Namespace]++
	}
	slices.SortStableFunc(list, func(a, b *watchedService) int { return cmp.Compare(rank[a], rank[b]) })
}

// Define sets the definition of a service, and publishes what that changes; nil
// removes it. The table keeps d, which must no longer be written.
func (t *Table) Define(id ServiceID, d *Definition) {
	if s := t.define(id, d); s != nil {
		t.rebuild(s)
	}
}

// define stores a definition, and returns the watched service that the definition changes, or nil.
// It stores the definition last, so that a call after a panic repeats everything.
func (t *Table) define(id ServiceID, d *Definition) *watchedService {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.definitions.get(id)
	if old.equal(d) {
		return nil
	}
	s := t.watched.get(id)
	if s != nil {
		t.unindex(s, old)
		t.unindex(s, d) // what a call that has panicked may have left
		t.index(s, d)
	}
	t.forgetReports(id, old, d)
	if d == nil {
		t.definitions.delete(id)
	} else {
		t.definitions.set(id, d)
	}
	return s
}

// index adds a watched service to byMember. t.mu is held.
func (t *Table) index(s *watchedService, d *Definition) {
	if d == nil {
		return
	}
	for _, m := range d.Members {
		services := t.byMember[m.Cluster]
		if services == nil {
			services = make(map[ServiceID][]*watchedService)
			t.byMember[m.Cluster] = services
		}
		services[m.Service] = append(slices.Clip(services[m.Service]), s)
	}
}

// unindex removes a watched service from byMember. t.mu is held.
func (t *Table) unindex(s *watchedService, d *Definition) {
	if d == nil {
		return
	}
	for _, m := range d.Members {
		services := t.byMember[m.Cluster]
		if services == nil {
			continue
		}
		rest := slices.DeleteFunc(slices.Clone(services[m.Service]), func(o *watchedService) bool { return o == s })
		if services[m.Service] = rest; len(rest) == 0 {
			delete(services, m.Service)
		}
		if len(services) == 0 {
			delete(t.byMember, m.Cluster)
		}
	}
}

// rebuild rebuilds a watched service, under supervision.
func (t *Table) rebuild(s *watchedService) { t.opts.Supervise(s.id, s, s.rebuild, s.again) }

// Changed reads a service of a cluster again, if it is a member of a service that
// is watched, and publishes what has changed. at is when the change happened. It is
// passed on in Set.Changed, for metrics, and may be zero.
func (t *Table) Changed(c ClusterName, svc ServiceID, at time.Time) {
	for _, s := range t.havingMember(c, svc) {
		t.update(s, func() { s.readMember(Member{c, svc}, at) })
	}
}

// havingMember returns the watched services with that member. The list must not be written.
func (t *Table) havingMember(c ClusterName, svc ServiceID) []*watchedService {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byMember[c][svc]
}

// AddressOwnerChanged asks the local cluster's AddressOwners again about an address, and publishes what
// that changes: an address that has got an owner leaves linked clusters' endpoints, and
// one that has lost it comes back. It costs one look-up unless a linked cluster offers
// the address to a watched port.
func (t *Table) AddressOwnerChanged(a netip.Addr) {
	for _, s := range t.withNumbers(t.offered.services(a)) {
		t.update(s, func() { s.screenAddr(a) })
	}
}

// withNumbers returns the watched services that have these numbers.
func (t *Table) withNumbers(numbers []uint32) (services []*watchedService) {
	if len(numbers) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range numbers {
		if s := t.numbered[n]; s != nil {
			services = append(services, s)
		}
	}
	return services
}

// update makes a watched service publish one change, under supervision. It skips a broken service,
// whose pending rebuild publishes the change too: the service is still broken after the change, so
// the rebuild begins later.
func (t *Table) update(s *watchedService, publish func()) {
	if !s.isBroken() {
		t.opts.Supervise(s.id, s, publish, s.again)
	}
}

// inputs are what a watched service is made of, besides what its members offer.
type inputs struct {
	definition *Definition   // nil: not defined
	links      []tableLink   // of the members' clusters
	owners     AddressOwners // of the local cluster's addresses
	region     string        // of the local cluster
}

// declares reports whether a member is known to declare a port.
func (in inputs) declares(port uint16) bool {
	for i, l := range in.links {
		if l.Source != nil && l.Source.Declares(in.definition.Members[i].Service, port) {
			return true
		}
	}
	return false
}

func (t *Table) inputs(id ServiceID) inputs {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.definitions.get(id)
	if d == nil {
		return inputs{}
	}
	in := inputs{definition: d, links: make([]tableLink, len(d.Members)), region: t.links[Local].Region}
	for i, m := range d.Members {
		in.links[i] = t.links[m.Cluster]
	}
	in.owners, _ = t.links[Local].Source.(AddressOwners)
	return in
}

// definition returns the newest definition of a service; nil: there is none.
func (t *Table) definition(id ServiceID) *Definition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.definitions.get(id)
}

// report calls Options.Report for members whose status has changed. A cluster that
// is pending or unreachable concerns all its services, so it is not reported for
// each of them.
func (t *Table) report(id ServiceID, d *Definition, members []contribution) {
	if t.opts.Report == nil || d == nil {
		return
	}
	for _, c := range members {
		if s := c.status; d.plain(c.member) || s.Link == Pending || s.Link == Unreachable {
			continue
		}
		if t.statusChanged(serviceMember{id, c.member}, c.status) {
			t.opts.Report(id, c.member, c.status)
		}
	}
}

// statusChanged remembers a member's status, and returns whether it differs from
// the one last reported. A member without a report counts as serving.
func (t *Table) statusChanged(m serviceMember, s MemberStatus) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.definitions.get(m.service); d == nil || !slices.Contains(d.Members, m.member) {
		return false // no longer a member
	}
	old, reported := t.reported[m]
	if s.Serving() {
		delete(t.reported, m)
		return reported
	}
	t.reported[m] = s
	return !reported || old != s
}

// forgetReports drops the reports of those members of old that are not in now.
// t.mu is held.
func (t *Table) forgetReports(id ServiceID, old, now *Definition) {
	if old == nil {
		return
	}
	for _, m := range old.Members {
		if now == nil || !slices.Contains(now.Members, m) {
			delete(t.reported, serviceMember{id, m})
		}
	}
}

// countUpdates gives a port's members their counts, in place of the counts before. The two lists
// may have members in common, but no memory.
func (t *Table) countUpdates(port uint16, before, now []contribution) {
	if undeclared(now) {
		port = 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range now {
		c := &now[i]
		key := updateKey{c.member, port}
		if c.total = t.updates[key]; c.total == nil {
			c.total = &updateCount{key: key}
			t.updates[key] = c.total
		}
		c.total.uses++
	}
	for i := range before {
		c := &before[i]
		if c.total.uses--; c.total.uses == 0 {
			delete(t.updates, c.total.key)
		}
	}
}

// Key returns the coarsest key that has the same answer for this client, so that
// as many clients as possible share it. It has Zone and Instance always, and Node only
// if the service's internalTrafficPolicy is Local: see Set.ByNode. Only the Set of the
// key knows whether node hints choose endpoints for the client. If so, add Node: see Set.HintedTo.
func (t *Table) Key(id ServiceID, port uint16, c Client) Key {
	s := t.watchedService(id)
	if s == nil || !s.byNode.Load() {
		c.Node = ""
	}
	return Key{Service: id, Port: port, Client: c}
}

// Watch returns a watch of the sets for a key. There is always a Set, also for a
// service that is not defined, and for an undeclared port too many: see TooManyPorts.
// Watches of equal keys share everything. If a source panics while it is read, so does
// Watch.
func (t *Table) Watch(k Key) *Watch[*Set] {
	s := t.acquire(k.Service)
	var latest *Latest[*Set]
	defer func() {
		if latest == nil { // a source has panicked
			defer t.release(s)
			t.rebuild(s) // for those who watch the service already
		}
	}()
	latest, added := s.watch(k)
	return NewWatch(latest, func() {
		defer t.release(s)
		if added && s.unwatch(k) {
			t.update(s, s.finishUnwatch)
		}
	})
}

// acquire returns the watched service of that name, and counts one watch more.
func (t *Table) acquire(id ServiceID) *watchedService {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.watched.get(id)
	if s == nil {
		s = newWatchedService(t, id, t.newNumber())
		t.watched.set(id, s)
		t.numbered[s.number] = s
		t.index(s, t.definitions.get(id))
	}
	s.refs++
	return s
}

// newNumber returns a number that no watched service has. t.mu is held.
func (t *Table) newNumber() uint32 {
	for {
		t.lastNumber++
		if t.numbered[t.lastNumber] == nil {
			return t.lastNumber
		}
	}
}

// release ends one watch's use of a service.
func (t *Table) release(s *watchedService) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.refs--; s.refs == 0 {
		t.watched.delete(s.id)
		delete(t.numbered, s.number)
		t.unindex(s, t.definitions.get(s.id))
	}
}

// watchedService returns a watched service. If the service is not watched, it returns nil.
func (t *Table) watchedService(id ServiceID) *watchedService {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.watched.get(id)
}

// Due returns when Tick is to be called next, and a channel that is closed once that
// is another time. Zero: there is no need to call it.
func (t *Table) Due() (time.Time, <-chan struct{}) { return t.schedule.next.Get() }

// Tick publishes what changes by the passing of time: endpoints that clients return
// from, or that a cordon takes out step by step.
func (t *Table) Tick() {
	due := t.schedule.takeDue(t.opts.Now())
	mixNamespaces(due)
	for _, s := range due {
		t.update(s, s.tick)
	}
}

// schedule has the watched services that change by themselves, and when to look at them next. There are
// few: those whose clients are about to return, or of which a cordon takes endpoints out step by step.
type schedule struct {
	mu   sync.Mutex // a leaf in the lock order
	due  map[*watchedService]time.Time
	next Latest[time.Time] // the earliest of due, or earlier: of a service that has changed since; zero: there is none
}

// set sets when a service is due; zero: not. It takes as long however many there are: that nothing is due
// at next any more is found out then.
func (c *schedule) set(s *watchedService, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.IsZero() {
		delete(c.due, s)
	} else {
		c.due[s] = at
	}
	switch next, _ := c.next.Get(); {
	case len(c.due) == 0:
		c.setNext(time.Time{})
	case !at.IsZero() && (next.IsZero() || at.Before(next)):
		c.setNext(at)
	}
}

// takeDue removes and returns the services that are due, by name.
func (c *schedule) takeDue(now time.Time) (list []*watchedService) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next time.Time
	for s, at := range c.due {
		switch {
		case !at.After(now):
			list = append(list, s)
			delete(c.due, s)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	c.setNext(next)
	slices.SortFunc(list, func(a, b *watchedService) int { return a.id.compare(b.id) })
	return list
}

// setNext publishes when to look next, if that has changed. c.mu is held.
func (c *schedule) setNext(at time.Time) {
	if next, _ := c.next.Get(); !at.Equal(next) {
		c.next.Set(at)
	}
}
