package federation

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Options configures a Table. All fields are optional. Report, ReportRefused and ReportTiers must
// not block, and must not call the Table.
type Options struct {
	// If IPv6 is false, sets omit IPv6 addresses.
	IPv6 bool
	// Report is called when a member of a watched service stops serving, starts serving again, or
	// fails for a new reason.
	Report func(ServiceID, Member, MemberStatus)
	// ReportRefused is called when the table begins to refuse addresses that a linked cluster
	// offers for a watched port. The arguments include one refused address, and the total number of
	// refused addresses.
	ReportRefused func(id ServiceID, port uint16, m Member, first Refusal, n int)
	// ReportTiers is called when the clients in a zone begin to use more or fewer tiers.
	ReportTiers func(TierChange)
	// Supervise must call the update function, which updates a watched service. If the update
	// function panics, Supervise must recover from the panic, and must schedule a call to the again
	// function after a pause. The again function rebuilds the service by calling Supervise once
	// more. Until the update succeeds, clients keep their previous endpoints.
	//
	// The second argument of Supervise is a comparable value that identifies the watched service.
	// If a service is watched again after its last watch was closed, a new value identifies the
	// service.
	//
	// If Supervise is nil, the Table does not recover from panics.
	Supervise func(id ServiceID, of any, update, again func())
	// Now returns the current time, for preferences and cordons. The default is time.Now.
	Now func() time.Time
}

// Table computes and publishes the sets of endpoints that clients receive. The sets depend on the
// services' definitions and on the clusters' links and sources. All methods are safe for concurrent
// use.
type Table struct {
	opts Options // fixed

	// mu is a leaf in the lock order, and may be acquired while a watched service's lock is held.
	// Sources must not be read while mu is held.
	mu          sync.Mutex
	definitions chunkMap[ServiceID, *Definition]
	links       map[ClusterName]tableLink
	watched     chunkMap[ServiceID, *watchedService]
	numbered    map[uint32]*watchedService // watched services by number
	lastNumber  uint32
	byMember    map[ClusterName]map[ServiceID][]*watchedService // lists are replaced, never written
	reported    map[serviceMember]MemberStatus                  // members that are not serving, as last reported
	updates     map[updateKey]*updateCount                      // update counts for the members of watched services

	offered  offeredAddrs // addresses that linked clusters offer to watched ports
	schedule schedule     // watched services that change with time
}

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

// Link calls SetLink with a link that has only a state and a source. The source must be nil unless
// the state is Ready.
func (t *Table) Link(c ClusterName, state LinkState, src Source) {
	t.SetLink(c, Link{State: state, Source: src})
}

// Unlink removes a cluster's link, and publishes the resulting changes.
func (t *Table) Unlink(c ClusterName) { t.SetLink(c, Link{}) }

// SetLink sets a cluster's link, and publishes the resulting changes. A new source replaces the
// previous source in one step. To rotate credentials, link the new source before stopping the
// previous one.
func (t *Table) SetLink(c ClusterName, l Link) {
	for _, s := range t.replaceLink(c, l) {
		t.rebuild(s)
	}
}

// replaceLink stores a link, and returns the affected watched services in the order in which they
// must be rebuilt.
func (t *Table) replaceLink(c ClusterName, l Link) (affected []*watchedService) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.links[c]
	if old.Link.equal(l) {
		return nil
	}
	if c == Local { // the address owners may have changed, which affects every service
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

// mixNamespaces reorders the services so that namespaces take turns. If namespaces did not take
// turns, a namespace with many or large services could delay other namespaces.
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

// define stores a definition. If the definition has changed and the service is watched, the result
// is the watched service. The definition is stored last, so that a call after a panic repeats all
// steps.
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
		t.unindex(s, d) // remove entries left behind by a call that panicked
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

// The index method adds a watched service to byMember. The caller must hold t.mu.
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

func (t *Table) rebuild(s *watchedService) { t.opts.Supervise(s.id, s, s.rebuild, s.again) }

// Changed reads a service in cluster c again, and publishes the resulting changes. If no watched
// service includes the changed service as a member, Changed does nothing.
//
// The time of the change is published in Set.Changed, for metrics, and may be zero.
func (t *Table) Changed(c ClusterName, svc ServiceID, at time.Time) {
	for _, s := range t.havingMember(c, svc) {
		t.update(s, func() { s.readMember(Member{c, svc}, at) })
	}
}

// The list that havingMember returns must not be modified.
func (t *Table) havingMember(c ClusterName, svc ServiceID) []*watchedService {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byMember[c][svc]
}

// AddressOwnerChanged looks up the owner of an address again, and publishes the resulting changes.
// If the address is now assigned to an object in the local cluster, the table removes the endpoints
// that linked clusters offer at this address. If the address is no longer assigned to a local
// object, the table restores the removed endpoints.
//
// If no linked cluster offers the address for a watched port, the call costs only one lookup.
func (t *Table) AddressOwnerChanged(a netip.Addr) {
	for _, s := range t.withNumbers(t.offered.services(a)) {
		t.update(s, func() { s.screenAddr(a) })
	}
}

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

// The update method uses Options.Supervise to call the given function. If the service is already
// waiting for a rebuild after a panic, the method does nothing, because the rebuild publishes the
// change too.
func (t *Table) update(s *watchedService, publish func()) {
	if !s.isBroken() {
		t.opts.Supervise(s.id, s, publish, s.again)
	}
}

// inputs contains everything that a watched service's sets depend on, except its members' offers.
type inputs struct {
	definition *Definition   // nil if the service is not defined
	links      []tableLink   // links of the members' clusters
	owners     AddressOwners // owners of the local cluster's addresses
	region     string        // region of the local cluster
}

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

func (t *Table) definition(id ServiceID) *Definition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.definitions.get(id)
}

// The report method calls Options.Report for the members whose status has changed. Members in
// pending and unreachable clusters are skipped, so that a cluster's problem is not reported again
// for each of its services.
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
// reported one. If t.reported does not contain the member, its last reported status is assumed to
// be "serving".
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

// forgetReports drops the reports for members that the new definition does not include. The caller
// must hold t.mu.
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

// countUpdates assigns a shared update counter to each current member, and releases the counters of
// the previous members. The lists of previous and current members must not share memory.
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

// Key returns the least specific key that is correct for the client, so that many clients can share
// a key. The key always contains the client's Zone and Instance. The key contains Node only if
// Set.ByNode is true for the service.
//
// If node hints determine the client's endpoints, the caller must add Node to the key (see
// Set.HintedTo).
func (t *Table) Key(id ServiceID, port uint16, c Client) Key {
	s := t.watchedService(id)
	if s == nil || !s.byNode.Load() {
		c.Node = ""
	}
	return Key{Service: id, Port: port, Client: c}
}

// Watch returns a watch on the sets for a key. All watches with the same key share the same sets.
// If the service is not defined, or too many undeclared ports are watched, the watch provides a Set
// with a Reason. Watch panics if a source panics while the table reads the source.
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

// acquire adds a reference to the watched service with the given ID. If the service is not watched
// yet, acquire creates a watchedService.
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

// newNumber returns an unused number for a watched service. The caller must hold t.mu.
func (t *Table) newNumber() uint32 {
	for {
		t.lastNumber++
		if t.numbered[t.lastNumber] == nil {
			return t.lastNumber
		}
	}
}

func (t *Table) release(s *watchedService) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.refs--; s.refs == 0 {
		t.watched.delete(s.id)
		delete(t.numbered, s.number)
		t.unindex(s, t.definitions.get(s.id))
	}
}

func (t *Table) watchedService(id ServiceID) *watchedService {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.watched.get(id)
}

// Due returns the time at which Tick must be called next, and a channel that is closed when that
// time changes. If the time is zero, Tick need not be called.
func (t *Table) Due() (time.Time, <-chan struct{}) { return t.schedule.next.Get() }

// Tick publishes the changes that are due, such as the next step of a gradual cordon.
func (t *Table) Tick() {
	due := t.schedule.takeDue(t.opts.Now())
	mixNamespaces(due)
	for _, s := range due {
		t.update(s, s.tick)
	}
}

// Explain says which addresses the clients of a key receive, and why they do not receive the other
// addresses. If the key is not watched, or if ctx is done before the call completes, the second
// result is false.
//
// Explain holds the service's lock only while copying the service's state. If the Source does not
// implement Explainer, the explanation omits addresses that are not in the Share.
func (t *Table) Explain(ctx context.Context, q Question) (*Explanation, bool) {
	s := t.watchedService(q.Key.Service)
	if s == nil {
		return nil, false
	}
	x, ok := inquire(s, q)
	if !ok {
		return nil, false
	}
	if x.result.Broken {
		return x.result, true
	}
	x.choose()
	for i := range x.port.members {
		x.member(ctx, i)
	}
	x.list()
	return x.result, ctx.Err() == nil
}

// Impact predicts the effect of setting the standing of cluster c to s. The result describes every
// service with a member in the cluster. If s is InService, Impact predicts the effect of removing
// the cluster's cordon. The list is sorted by service and port.
//
// Impact chooses endpoints the way the table chooses them for clients, and takes about as long as
// the change itself. If ctx is done before the call completes, Impact returns an error.
func (t *Table) Impact(ctx context.Context, c ClusterName, s Standing) ([]ServiceImpact, error) {
	services := make(map[ServiceID]bool)
	for id, d := range t.definitions.inChunks(&t.mu) {
		if slices.ContainsFunc(d.Members, func(m Member) bool { return m.Cluster == c }) {
			services[id] = true
		}
	}
	list := []ServiceImpact{}
	for _, id := range slices.SortedFunc(maps.Keys(services), ServiceID.compare) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		in := t.inputs(id)
		if in.definition == nil {
			continue // the definition was just removed
		}
		watched := trials(t.watchedService(id), in.definition.Members)
		for _, x := range watched {
			list = append(list, x.impact(id, cordoned(in, c, s), t.opts))
		}
		if len(watched) == 0 {
			now := serving(in, t.opts)
			then := serving(cordoned(in, c, s), t.opts)
			list = append(list, ServiceImpact{Service: id, Now: now, Then: then})
		}
	}
	return list, nil
}

// Linked returns the state of each cluster's link.
func (t *Table) Linked() map[ClusterName]LinkState {
	t.mu.Lock()
	defer t.mu.Unlock()
	states := make(map[ClusterName]LinkState, len(t.links))
	for c, l := range t.links {
		states[c] = l.State
	}
	return states
}

// Definitions returns all definitions, which the caller must not modify. If definitions change
// during the call, the result may contain later changes without earlier ones.
func (t *Table) Definitions() map[ServiceID]*Definition {
	return maps.Collect(t.definitions.inChunks(&t.mu))
}

// Defined reports whether a service has a definition.
func (t *Table) Defined(id ServiceID) bool {
	return t.definition(id) != nil
}

// watchedNow returns all watched services. If watches are opened or closed during the call, their
// services may or may not be included.
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

// Unserved returns the members that do not contribute endpoints or cannot be reached. All federated
// and mirrored services are checked, whether watched or not. The list is sorted by service. The
// members of a service are in definition order. Unserved calls Source.State for every member.
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

// Watched returns all watched ports, sorted by service and port.
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

// EachWatched iterates over all watched ports without building a list. The Members of a port are
// valid only until the next iteration. Services are yielded in an unspecified order, and all ports
// of a service are yielded consecutively.
func (t *Table) EachWatched() iter.Seq[WatchedPort] {
	return func(yield func(WatchedPort) bool) {
		var ports []port
		var members []WatchedMember
		for _, s := range t.watchedNow() {
			ports = s.copies(ports)
			for i := range ports {
				members = describePort(&ports[i], members[:0])
				if !yield(WatchedPort{s.id, ports[i].number, ports[i].summary.undeclared, members}) {
					return
				}
			}
		}
	}
}

// Steered describes the watched services whose endpoints depend on a preference or on the standing
// of a cluster. The list is sorted by service. If the argument is true, the fields Clients and
// MoreClients are set, which takes considerably longer.
func (t *Table) Steered(clients bool) []SteeredService {
	var list []SteeredService
	for _, s := range t.watchedNow() {
		if one := describeSteered(s, clients); one.Preference != nil {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b SteeredService) int { return a.Service.compare(b.Service) })
	return list
}

// A schedule records when each watched service is due for its next timed update, such as a step of
// a gradual cordon. A service is scheduled only while its clients are failing back, or while a
// gradual cordon affects one of its clusters.
type schedule struct {
	mu   sync.Mutex // a leaf in the lock order
	due  map[*watchedService]time.Time
	next Latest[time.Time] // the earliest time in due, or an earlier one; zero if due is empty
}

// The set method schedules a service, or removes it from the schedule if the time is zero. If a
// service is removed from the schedule, or if its next update is postponed, the published time of
// the next change may be too early. Finding the correct time requires a search of the whole
// schedule, so the set method leaves the published time uncorrected until takeDue is called.
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
