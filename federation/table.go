package federation

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Options configures a Table. The zero value serves only IPv4 and does not report anything.
type Options struct {
	// If IPv6 is true, sets contain IPv6 addresses. If IPv6 is false, sets omit IPv6 addresses.
	IPv6 bool
	// Report is called when a member of a watched service stops serving, serves again, or fails to
	// serve for a different reason. Report must not block, and must not call the Table. If Report
	// is nil, it is not called.
	Report func(ServiceID, Member, MemberStatus)
	// ReportRefused is called when the table begins to refuse addresses that a linked cluster
	// offers to a watched port. The last argument is the number of refused addresses. The same
	// rules apply to ReportRefused as to Report.
	ReportRefused func(id ServiceID, port uint16, m Member, first Refusal, n int)
	// ReportTiers is called when the clients in a zone begin to use more or fewer tiers. The same
	// rules apply to ReportTiers as to Report.
	ReportTiers func(TierChange)
	// Supervise calls update, which updates a watched service. If update panics, Supervise must
	// recover. After a pause, Supervise must call the last argument, which calls Supervise again.
	// Until the update succeeds, clients keep their endpoints.
	//
	// The second argument identifies the watched service. The second argument stays the same until
	// the last watch of the service is closed.
	//
	// If Supervise is nil, the Table does not recover from panics.
	Supervise func(id ServiceID, of any, update, again func())
	// Now returns the current time, which determines the effects of preferences and cordons. The
	// default is time.Now.
	Now func() time.Time
}

// Table combines definitions with clusters, and publishes the sets that clients receive. All
// methods are safe for concurrent use. Each method of a Table publishes all effects before it
// returns.
type Table struct {
	opts Options // fixed

	// mu is a leaf in the lock order. The lock is held only for access to the maps, never while a
	// source is read. The lock on the maps may be acquired while a watched service's lock is held.
	// Iterations over all definitions or watched services copy the entries in chunks.
	mu          sync.Mutex
	definitions chunkMap[ServiceID, *Definition]
	links       map[ClusterName]tableLink
	watched     chunkMap[ServiceID, *watchedService]
	numbered    map[uint32]*watchedService // watched services by number
	lastNumber  uint32
	byMember    map[ClusterName]map[ServiceID][]*watchedService // lists are replaced, never written
	reported    map[serviceMember]MemberStatus                  // members that do not serve, as last reported
	updates     map[updateKey]*updateCount                      // update counts for the members of watched services

	offered  offeredAddrs // addresses that linked clusters offer to watched ports
	schedule schedule     // watched services that change with time
}

// serviceMember identifies one member of one service.
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

// Link sets the state of a cluster's link, and its source if the state is Ready. Link is equivalent
// to SetLink with a Link that has no ranges, region or standing.
func (t *Table) Link(c ClusterName, state LinkState, src Source) {
	t.SetLink(c, Link{State: state, Source: src})
}

// Unlink removes a cluster's link, and publishes the resulting changes.
func (t *Table) Unlink(c ClusterName) { t.SetLink(c, Link{}) }

// SetLink sets a cluster's link, and publishes the resulting changes. If the link is Ready and its
// source differs from the previous one, the new source replaces the previous source in one step. To
// rotate credentials, link the new source before stopping the previous one.
func (t *Table) SetLink(c ClusterName, l Link) {
	for _, s := range t.replaceLink(c, l) {
		t.rebuild(s)
	}
}

// replaceLink stores a link. The result contains the affected watched services, in the order in
// which they must be rebuilt.
func (t *Table) replaceLink(c ClusterName, l Link) (affected []*watchedService) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.links[c]
	if old.Link.equal(l) {
		return nil
	}
	if c == Local { // no other cluster may offer its addresses
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

// mixNamespaces reorders the services: the result begins with the first service of every namespace,
// followed by the second service of every namespace, and so on. With this order, a namespace with
// many or large services does not delay the others.
func mixNamespaces(list []*watchedService) {
	seen := make(map[string]int) // number of services so far, by namespace
	rank := make(map[*watchedService]int, len(list))
	for _, s := range list {
		rank[s] = seen[s.id.Namespace]
		seen[s.id.Namespace]++
	}
	slices.SortStableFunc(list, func(a, b *watchedService) int { return cmp.Compare(rank[a], rank[b]) })
}

// Define sets the definition of a service, and publishes the resulting changes. If d is nil, Define
// removes the definition. The caller must not modify d after the call.
func (t *Table) Define(id ServiceID, d *Definition) {
	if s := t.define(id, d); s != nil {
		t.rebuild(s)
	}
}

// define stores a definition. If the service is watched, define returns the watched service. If the
// service is not watched, define returns nil. The definition is stored last, so that calling define
// again after a panic repeats all steps.
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
		t.unindex(s, d) // remove what a call that panicked may have left behind
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

// index adds a watched service to byMember. The caller must hold t.mu.
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

// unindex removes a watched service from byMember. The caller must hold t.mu.
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

// rebuild rebuilds a watched service under supervision.
func (t *Table) rebuild(s *watchedService) { t.opts.Supervise(s.id, s, s.rebuild, s.again) }

// Changed reads a service in cluster c again, and publishes the resulting changes. If no watched
// service includes the changed service as a member, Changed does nothing.
//
// The last argument is the time of the change. The time is published in Set.Changed, for metrics,
// and may be zero.
func (t *Table) Changed(c ClusterName, svc ServiceID, at time.Time) {
	for _, s := range t.havingMember(c, svc) {
		t.update(s, func() { s.readMember(Member{c, svc}, at) })
	}
}

// havingMember returns the watched services that include the member. The caller must not modify the
// list.
func (t *Table) havingMember(c ClusterName, svc ServiceID) []*watchedService {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byMember[c][svc]
}

// AddressOwnerChanged looks up the owner of an address again, and publishes the resulting changes.
// If the address now has an owner, it is removed from the linked clusters' endpoints. If the
// address no longer has an owner, it is added to the linked clusters' endpoints again.
//
// If no linked cluster offers the address to a watched port, AddressOwnerChanged costs only one
// lookup.
func (t *Table) AddressOwnerChanged(a netip.Addr) {
	for _, s := range t.withNumbers(t.offered.services(a)) {
		t.update(s, func() { s.screenAddr(a) })
	}
}

// withNumbers returns the watched services with the given numbers.
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

// update publishes one change to a watched service, under supervision. A broken service is skipped.
// A broken service is rebuilt later, which also publishes the skipped change.
func (t *Table) update(s *watchedService, publish func()) {
	if !s.isBroken() {
		t.opts.Supervise(s.id, s, publish, s.again)
	}
}

// inputs contains the state that a watched service depends on, except the offers of its members.
type inputs struct {
	definition *Definition   // nil if the service is not defined
	links      []tableLink   // links of the members' clusters
	owners     AddressOwners // owners of the local cluster's addresses
	region     string        // region of the local cluster
}

// declares reports whether any member is known to declare the port.
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

// definition returns the newest definition of a service, or nil if the service is not defined.
func (t *Table) definition(id ServiceID) *Definition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.definitions.get(id)
}

// report calls Options.Report for the members whose status has changed. Members in pending and
// unreachable clusters are skipped, because the state of the cluster affects all its services.
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

// statusChanged stores a member's status, and reports whether the status differs from the last
// reported one. A member that has never been reported counts as serving.
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

// forgetReports drops the reports for members of the old definition that are not members of the new
// definition. The caller must hold t.mu.
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

// countUpdates assigns update counts to the current members, and releases the update counts of the
// previous members. The two lists may have members in common, but must not share memory.
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

// Key returns the most general key that is correct for the client, so that as many clients as
// possible share a key. The key always contains the client's Zone and Instance. The key contains
// Node only if the service's internalTrafficPolicy is Local: see Set.ByNode.
//
// If node hints choose the client's endpoints, the caller must add Node to the key. Only a Set for
// the key tells whether node hints choose the endpoints: see Set.HintedTo.
func (t *Table) Key(id ServiceID, port uint16, c Client) Key {
	s := t.watchedService(id)
	if s == nil || !s.byNode.Load() {
		c.Node = ""
	}
	return Key{Service: id, Port: port, Client: c}
}

// Watch returns a watch on the sets for a key. The watch always provides a Set, even if the service
// is not defined, or the limit of undeclared ports has been reached: see TooManyPorts. All watches
// with the same key share the same sets. Watch panics if a source panics while the table reads the
// source.
func (t *Table) Watch(k Key) *Watch[*Set] {
	s := t.acquire(k.Service)
	var latest *Latest[*Set]
	defer func() {
		if latest == nil { // a source panicked
			defer t.release(s)
			t.rebuild(s) // for the other watches of the service
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

// acquire returns the watched service with the given ID, and adds a reference to the service.
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

// newNumber returns a number that is not in use by a watched service. The caller must hold t.mu.
func (t *Table) newNumber() uint32 {
	for {
		t.lastNumber++
		if t.numbered[t.lastNumber] == nil {
			return t.lastNumber
		}
	}
}

// release removes one reference to a watched service.
func (t *Table) release(s *watchedService) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.refs--; s.refs == 0 {
		t.watched.delete(s.id)
		delete(t.numbered, s.number)
		t.unindex(s, t.definitions.get(s.id))
	}
}

// watchedService returns a watched service, or nil if the service is not watched.
func (t *Table) watchedService(id ServiceID) *watchedService {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.watched.get(id)
}

// Due returns the time when Tick must be called next, and a channel that is closed when that time
// changes. If the returned time is zero, Tick does not need to be called.
func (t *Table) Due() (time.Time, <-chan struct{}) { return t.schedule.next.Get() }

// Tick publishes the changes that are due: as clients fail back, endpoints of other tiers are
// removed, and a gradual cordon takes endpoints out of service.
func (t *Table) Tick() {
	due := t.schedule.takeDue(t.opts.Now())
	mixNamespaces(due)
	for _, s := range due {
		t.update(s, s.tick)
	}
}

// schedule records when each watched service changes next without an event. Few services are
// scheduled: only those whose clients are about to fail back, and those with a cluster whose cordon
// is in progress.
type schedule struct {
	mu   sync.Mutex // a leaf in the lock order
	due  map[*watchedService]time.Time
	next Latest[time.Time] // the earliest time in due, or earlier if a service has changed since; zero if due is empty
}

// set sets the time when a service is due. If the time is zero, set removes the service. The set
// method runs in constant time. Because set does not search all times, the time of the next change
// may be too early. The takeDue method corrects a time that is too early.
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

// takeDue removes and returns the services that are due. The services are sorted by name.
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

// setNext publishes the time of the next change if the time has changed. The caller must hold c.mu.
func (c *schedule) setNext(at time.Time) {
	if next, _ := c.next.Get(); !at.Equal(next) {
		c.next.Set(at)
	}
}
