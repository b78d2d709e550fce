package grpcapi

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

// viewBase contains the state common to the views of both RPCs: the key shared by the view's
// streams, and a watch on the newest value.
type viewBase[K comparable, T any] struct {
	key K

	// guarded by viewCache.mu
	refs   int       // number of streams that use the view
	weight int       // the last result of becomeIdle
	until  time.Time // when an idle view is closed

	mu     sync.Mutex
	watch  *federation.Watch[T] // fixed, as is quota, after startWatch has returned
	quota  *quota
	cost   int64 // guarded by mu; the part of the quota that the view uses
	served bool  // guarded by mu; more streams may use the view, even if the quota is exhausted
}

// If the watch has not been started yet, startWatch starts the watch and charges the cost of the
// view to the quota. The first result is true if the quota has room, or if the view already serves
// other streams. The second result is the cost, or 0 if the watch had already been started.
//
// If the first result is false, stream.admit determines whether the stream is served.
func (b *viewBase[K, T]) startWatch(
	watch func(K) *federation.Watch[T],
	from *quota,
	costOf func(T) int,
) (fits bool, cost int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watch == nil {
		b.watch = watch(b.key)
		newest, _ := b.watch.Get()
		cost = int64(costOf(newest))
		b.quota = from
		b.cost = cost
		b.served = from.use(cost)
	}
	b.served = b.served || from.hasRoom()
	return b.served, cost
}

// After one stream of a view has been admitted, markServed allows further streams to use the view
// even if the quota is exhausted.
func (b *viewBase[K, T]) markServed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.served = true
}

func (b *viewBase[K, T]) setCost(cost int64) {
	b.quota.use(cost - b.cost)
	b.cost = cost
}

// close closes the watch if it has been started. Streams must not use a closed view.
func (b *viewBase[K, T]) close() {
	if b.watch != nil {
		b.watch.Close()
		b.quota.use(-b.cost)
	}
}

func (b *viewBase[K, T]) get() (T, <-chan struct{}) { return b.watch.Get() }

func (b *viewBase[K, T]) base() *viewBase[K, T] { return b }

// cachedView is implemented by getView and profileView.
type cachedView[K comparable, T any] interface {
	comparable
	base() *viewBase[K, T]
	// becomeIdle is called when the last stream has stopped using the view. The method frees memory
	// that an idle view does not need, and returns the estimated size of the idle view in bytes. If
	// the result is zero, the view is not cached.
	becomeIdle() int
}

// viewCache maps the keys of one RPC to their views. A view that no stream uses is idle. Idle views
// stay cached for Options.Linger, because proxies usually reopen quiet streams soon after they end.
//
// Clients can invent names and namespaces, and request any port of a Pod or an instance. Views of
// nonexistent names are not cached. If the destination of a request exists, the view for the
// request can be cached and can evict idle views, even if the request contains an invented client
// namespace or an arbitrary port. The number of idle views never exceeds Options.IdleViews, and
// their total estimated size never exceeds Options.IdleBytes. When the quota is exhausted, idle
// views are evicted, and no further views are cached.
//
// The expirable cache in the LRU library is not used, because it starts a goroutine that never
// ends.
type viewCache[K comparable, T any, V cachedView[K, T]] struct {
	create    func(K) V // fixed, as are quota, linger, maxIdle and maxWeight
	quota     *quota
	linger    time.Duration
	maxIdle   int
	maxWeight int // maximum total weight of the idle views

	mu      sync.Mutex
	all     map[K]V
	idle    *simplelru.LRU[K, V] // the idle views in all
	expiry  *time.Timer          // calls expire when the oldest idle view has been idle for linger, or earlier
	weight  int                  // total weight of the idle views
	evicted uint64               // number of views that were closed to make room
}

func newViewCache[K comparable, T any, V cachedView[K, T]](o Options, of *quota, create func(K) V) *viewCache[K, T, V] {
	idle, _ := simplelru.NewLRU[K, V](max(1, o.IdleViews), nil) // fails only if the size is zero
	c := &viewCache[K, T, V]{
		create:    create,
		quota:     of,
		linger:    o.Linger,
		maxIdle:   max(1, o.IdleViews),
		maxWeight: o.IdleBytes,
		all:       make(map[K]V),
		idle:      idle,
	}
	c.expiry = time.AfterFunc(c.linger, c.expire)
	return c
}

// acquire returns the view for a key, and creates the view if necessary. The caller must call
// startWatch before using the view, and must release the view when its stream no longer uses it.
func (c *viewCache[K, T, V]) acquire(k K) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.all[k]
	if !ok {
		v = c.create(k)
		c.all[k] = v
	}
	b := v.base()
	b.refs++
	c.removeIdle(b)
	return v
}

// If the view is idle, removeIdle removes it from the idle views. The caller must hold c.mu.
func (c *viewCache[K, T, V]) removeIdle(b *viewBase[K, T]) {
	if c.idle.Remove(b.key) {
		c.weight -= b.weight
	}
}

func (c *viewCache[K, T, V]) release(v V) {
	for _, old := range c.retire(v) {
		old.close()
	}
}

// retire is called when a stream stops using a view, and returns the views that the caller must
// close. If no other stream uses the given view and the view is not cached, the result contains
// only this view. If the view is cached, the result contains the older idle views, if any, that
// were evicted to make room.
func (c *viewCache[K, T, V]) retire(v V) (old []*viewBase[K, T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := v.base()
	b.refs--
	if b.refs > 0 {
		return nil
	}
	if c.all[b.key] != v { // forget has removed the view
		return []*viewBase[K, T]{b}
	}
	b.weight = 0
	if c.linger >= 0 && b.watch != nil {
		b.weight = v.becomeIdle()
	}
	if b.weight == 0 || b.weight > c.maxWeight || !c.quota.hasRoom() {
		delete(c.all, b.key)
		return []*viewBase[K, T]{b}
	}
	for c.idle.Len() == c.maxIdle || c.weight+b.weight > c.maxWeight {
		old = append(old, c.evictOldest())
	}
	if c.idle.Len() == 0 {
		c.expiry.Reset(c.linger)
	}
	c.idle.Add(b.key, v)
	c.weight += b.weight
	b.until = time.Now().Add(c.linger)
	return old
}

// forget removes a view from the cache, so that the next stream with the same key creates a new
// one. Only a stream that uses the view may call this method. The view is closed when the last of
// its streams releases it.
func (c *viewCache[K, T, V]) forget(v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := v.base().key
	if c.all[key] == v {
		delete(c.all, key)
	}
}

// oldest returns the view that has been idle the longest, or nil if there are no idle views. The
// caller must hold c.mu.
func (c *viewCache[K, T, V]) oldest() *viewBase[K, T] {
	_, oldest, ok := c.idle.GetOldest()
	if !ok {
		return nil
	}
	return oldest.base()
}

// remove removes an idle view, which the caller must then close. The caller must hold c.mu.
func (c *viewCache[K, T, V]) remove(b *viewBase[K, T]) {
	c.removeIdle(b)
	delete(c.all, b.key)
}

// evictOldest removes the view that has been idle the longest, and counts it as evicted. If there
// are no idle views, the result is nil. The caller must hold c.mu.
func (c *viewCache[K, T, V]) evictOldest() *viewBase[K, T] {
	b := c.oldest()
	if b != nil {
		c.remove(b)
		c.evicted++
	}
	return b
}

func (c *viewCache[K, T, V]) makeRoom() {
	for !c.quota.hasRoom() {
		c.mu.Lock()
		b := c.evictOldest()
		c.mu.Unlock()
		if b == nil {
			return
		}
		b.close()
	}
}

func (c *viewCache[K, T, V]) expire() {
	var over []*viewBase[K, T]
	c.mu.Lock()
	for b := c.oldest(); b != nil; b = c.oldest() {
		if left := time.Until(b.until); left > 0 {
			c.expiry.Reset(left)
			break
		}
		c.remove(b)
		over = append(over, b)
	}
	c.mu.Unlock()
	for _, b := range over {
		b.close()
	}
}

func (c *viewCache[K, T, V]) count() (all, idle int, evicted uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all), c.idle.Len(), c.evicted
}

type viewUse[K comparable, T any] struct {
	key     K
	streams int // 0 if the view is idle
	newest  T
}

func (c *viewCache[K, T, V]) uses() []viewUse[K, T] {
	c.mu.Lock()
	all := make([]*viewBase[K, T], 0, len(c.all))
	list := make([]viewUse[K, T], 0, len(c.all))
	for k, v := range c.all {
		b := v.base()
		all = append(all, b)
		list = append(list, viewUse[K, T]{key: k, streams: b.refs})
	}
	c.mu.Unlock()
	watching := list[:0]
	for i, b := range all {
		b.mu.Lock()
		watch := b.watch
		b.mu.Unlock()
		if watch == nil {
			continue // the view was acquired just now
		}
		u := list[i]
		u.newest, _ = watch.Get()
		watching = append(watching, u)
	}
	return watching
}

const (
	// maxSteps is the maximum number of lazyFrames values that a view caches for its newest set.
	maxSteps = 8
	// manyEndpoints is the minimum number of endpoints in a large set.
	manyEndpoints = 64
	// firstKept is how long a view caches the first messages of new streams if the set is large.
	// The first messages contain all endpoints of the set. Caching the first messages briefly is
	// enough, because new streams usually arrive close together. The cached messages of large sets
	// can use a large part of the replica's memory.
	firstKept = time.Second
)

// getView is the view for one federation.Key, and holds the newest set and its encoded messages.
//
// The first stream that needs a message encodes it, and all streams send the same bytes. If several
// streams must replace the same old set with the newest set, they share the messages of this
// update.
type getView struct {
	viewBase[federation.Key, *federation.Set]
	enc wire.Encoder

	// guarded by mu
	steps       []*lazyFrames // steps to the newest set, in the order in which streams first needed them
	costVersion uint64        // the version of the set that determines cost
}

func newGetView(k federation.Key, enc wire.Encoder) *getView {
	v := &getView{enc: enc.InZone(k.Client.Zone)}
	v.key = k
	return v
}

// endpointBytes is the estimated memory used by an endpoint in a set and in the set's messages.
const endpointBytes = 300

// A view uses about viewBytes of memory, plus memberBytes for each member of the service.
const (
	viewBytes   = 1 << 10
	memberBytes = 400
)

func costOfSet(s *federation.Set) int {
	return viewBytes + len(s.Endpoints)*endpointBytes + s.Members*memberBytes
}

// updateCost adjusts the view's quota usage to the size of the given set. If the usage is already
// based on this set or on a newer one, updateCost does nothing.
func (v *getView) updateCost(set *federation.Set) {
	v.mu.Lock()
	defer v.mu.Unlock() // deferred, because a panic only ends one stream
	v.updateCostLocked(set)
}

func (v *getView) updateCostLocked(set *federation.Set) {
	if v.watch != nil && set.Version > v.costVersion { // in tests, a view may have no watch
		v.costVersion = set.Version
		v.setCost(int64(costOfSet(set)))
	}
}

// becomeIdle implements cachedView. The following views are not cached:
//
//   - Views without endpoints, because they are cheap to create and clients can invent any number
//     of names.
//   - Views of undeclared ports, because they would continue to count toward
//     federation.MaxUndeclaredPorts.
//   - Views of services with a pending cluster, because the port may turn out to be undeclared.
func (v *getView) becomeIdle() int {
	set, _ := v.get()
	if len(set.Endpoints) == 0 || set.Undeclared || !set.Complete {
		return 0
	}
	return costOfSet(set)
}

// lazyFrames holds the messages that take a client from one set to another. The first call to the
// frames function encodes the messages.
type lazyFrames struct {
	from, to *federation.Set // from is nil for a new stream, which receives the whole set
	all      bool
	frames   func() []*wire.Frame
}

// The messages method returns the messages that replace a client's current set with a new set (see
// wire.Encoder.Step). The new set must belong to this view. The client's current set may belong to
// any view, or may be nil.
func (v *getView) messages(from, to *federation.Set, all bool) []*wire.Frame {
	return v.lazy(from, to, all).frames()
}

// messagesAfterHints returns the messages for a client whose last set was chosen with node hints.
// When node hints are no longer used, the streams on all nodes switch simultaneously from small
// per-node sets to one large shared set. The messages that add endpoints contain the whole new set,
// so that the streams on all nodes can share these messages.
func (v *getView) messagesAfterHints(from, to *federation.Set) []*wire.Frame {
	return append(slices.Clip(v.messages(nil, to, false)), v.enc.Removal(from, to)...)
}

// messagesFor returns messages that are encoded for one stream and not shared with other streams
// (see stream.setAlone).
func (v *getView) messagesFor(enc wire.Encoder, from, to *federation.Set, all bool) []*wire.Frame {
	v.updateCost(to)
	return encode(&enc, from, to, all)
}

func encode(enc *wire.Encoder, from, to *federation.Set, all bool) []*wire.Frame {
	if from == nil {
		return enc.Full(to)
	}
	return enc.Step(from, to, all)
}

func (v *getView) lazy(from, to *federation.Set, all bool) *lazyFrames {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.updateCostLocked(to)
	for _, f := range v.steps {
		if f.to == to && f.from == from && f.all == all {
			return f
		}
	}
	f := &lazyFrames{
		from:   from,
		to:     to,
		all:    all,
		frames: sync.OnceValue(func() []*wire.Frame { return encode(&v.enc, from, to, all) }),
	}
	if v.keep(f) && from == nil && len(to.Endpoints) >= manyEndpoints {
		version := to.Version // do not capture f, which the timer would keep in memory
		time.AfterFunc(firstKept, func() { v.forgetFirst(version) })
	}
	return f
}

// The keep method caches the given messages, and drops cached messages for older sets. If the view
// has cached messages for a newer set, the keep method returns false and does not cache the given
// messages. The caller must hold v.mu.
func (v *getView) keep(f *lazyFrames) bool {
	if n := len(v.steps); n > 0 {
		newest := v.steps[n-1].to
		switch {
		case newest.Version > f.to.Version:
			return false
		case newest != f.to:
			v.steps = nil
		case n == maxSteps:
			v.steps = slices.Delete(v.steps, 0, 1)
		}
	}
	v.steps = append(v.steps, f)
	return true
}

func (v *getView) forgetFirst(version uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	first := func(f *lazyFrames) bool { return f.from == nil && f.to.Version == version }
	v.steps = slices.DeleteFunc(v.steps, first)
}

// profileView is the view for one federation.ProfileKey, and holds the newest profile and its
// encoded messages.
//
// A profile can have several encoded messages, which are called variants. If a ServiceProfile is
// rejected, each proxy keeps the last routes that it received for the service. The message for a
// rejected ServiceProfile depends on the last routes that the proxy received.
type profileView struct {
	viewBase[federation.ProfileKey, *federation.Profile]
	server *Server

	variants []*profileVariant // guarded by mu; all of the newest requested profile
}

func newProfileView(k federation.ProfileKey, s *Server) *profileView {
	v := &profileView{server: s}
	v.key = k
	return v
}

type profileVariant struct {
	profile *federation.Profile
	routing *wire.Routing
	frames  []*wire.Frame // always one frame
}

// sentRoutes holds the routes that a proxy has most recently received, and the service to which
// these routes belong. The zero value means that the proxy has not received any routes yet.
type sentRoutes struct {
	service federation.ServiceID
	routes  *federation.ServiceProfile // nil means the default routes
}

// becomeIdle implements cachedView. An idle view does not store messages, because encoding them
// again is cheap. Views of unknown destinations are not cached, because clients can invent any
// number of names and addresses.
func (v *profileView) becomeIdle() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.variants = nil
	p, _ := v.get()
	if p.Reason != federation.Resolved || p.Endpoint != nil && p.Endpoint.Kind == federation.Address {
		return 0
	}
	return costOfProfile(p)
}

// costOfProfile returns the estimated memory that a profileView uses. The routes are not included,
// because they belong to the ServiceProfile.
func costOfProfile(*federation.Profile) int { return viewBytes }

// variant returns the newest profile, encoded for a proxy that has already received the given
// routes. The returned channel is closed when the profile is replaced.
func (v *profileView) variant(last sentRoutes) (newest *profileVariant, replaced <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p, replaced := v.get()
	routes := p.Routes
	if p.Rejected && last.service == p.Service {
		routes = last.routes
	}
	if len(v.variants) > 0 && v.variants[0].profile != p {
		v.variants = nil
		v.server.metrics.profileChanged(v.key, p) // the view's streams are about to send the new profile
	}
	r := v.server.routings.Of(routes, p.Port)
	for _, x := range v.variants {
		if x.routing == r {
			return x, replaced
		}
	}
	newest = &profileVariant{profile: p, routing: r, frames: []*wire.Frame{v.server.enc.Profile(p, r)}}
	v.variants = append(v.variants, newest)
	return newest, replaced
}
