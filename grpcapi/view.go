package grpcapi

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

// viewBase is what the views of both RPCs have in common: the key K, which streams
// share it by, and a watch of the newest T.
type viewBase[K comparable, T any] struct {
	key K

	// under viewCache.mu
	refs   int       // streams that use it
	weight int       // what becomeIdle returned last
	until  time.Time // when it is closed, while it is idle

	mu     sync.Mutex
	watch  *federation.Watch[T] // fixed once startWatch has returned, as is quota
	quota  *quota
	cost   int64 // under mu: what the view takes of the quota
	served bool  // under mu: further streams may use the view, whatever is left of the quota
}

// startWatch starts the watch, unless it has been started, and takes what it costs of
// the quota. cost is how much that is: 0 if the watch had been started. fits is whether
// that is within the limit, or streams that are served use the view. Otherwise
// stream.admit decides.
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

// markServed lets further streams use the view: one that uses it has been admitted.
func (b *viewBase[K, T]) markServed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.served = true
}

// setCost changes what the view takes of the quota. b.mu is held.
func (b *viewBase[K, T]) setCost(cost int64) {
	b.quota.use(cost - b.cost)
	b.cost = cost
}

// close ends the watch, if there is one. No stream uses the view.
func (b *viewBase[K, T]) close() {
	if b.watch != nil {
		b.watch.Close()
		b.quota.use(-b.cost)
	}
}

// get returns the newest value, and a channel that is closed once it is replaced.
func (b *viewBase[K, T]) get() (T, <-chan struct{}) { return b.watch.Get() }

func (b *viewBase[K, T]) base() *viewBase[K, T] { return b }

// cachedView is a getView or a profileView.
type cachedView[K comparable, T any] interface {
	comparable
	base() *viewBase[K, T]
	// becomeIdle is called when the last stream has left the view. It frees what an
	// idle view does not need, and returns about how many bytes the rest takes; 0:
	// the view is not worth keeping.
	becomeIdle() int
}

// viewCache finds or makes the views of one RPC by key. A view that no stream uses is
// idle, and kept for Options.Linger: a quiet stream that ends is usually followed by
// the same proxy's next one.
//
// Names that clients make up leave nothing behind: views of what does not exist are
// not kept. Clients can also make up namespaces, and ports of a Pod or of an instance,
// and so evict the idle views of others, which are then made again; but they can't
// exceed Options.IdleViews and Options.IdleBytes. While views take as much memory as they
// may, none is kept, and those that are idle make room for others.
//
// Idle views are in a plain LRU, with one timer for the oldest: the expirable LRU of the same
// library starts a goroutine that never ends.
type viewCache[K comparable, T any, V cachedView[K, T]] struct {
	create    func(K) V // fixed, as are quota, linger, maxIdle and maxWeight
	quota     *quota
	linger    time.Duration
	maxIdle   int
	maxWeight int // of all idle views

	mu      sync.Mutex
	all     map[K]V
	idle    *simplelru.LRU[K, V] // those of all that no stream uses
	expiry  *time.Timer          // calls expire when the oldest of these has been idle for linger, or earlier
	weight  int                  // of the idle ones
	evicted uint64               // closed to make room
}

func newViewCache[K comparable, T any, V cachedView[K, T]](o Options, of *quota, create func(K) V) *viewCache[K, T, V] {
	idle, _ := simplelru.NewLRU[K, V](max(1, o.IdleViews), nil) // fails for a size of zero only
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

// acquire returns the key's view, for one stream to use and release. The caller calls
// startWatch before anything else.
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

// removeIdle removes a view from the idle ones, if it is one. c.mu is held.
func (c *viewCache[K, T, V]) removeIdle(b *viewBase[K, T]) {
	if c.idle.Remove(b.key) {
		c.weight -= b.weight
	}
}

// release ends one stream's use of a view.
func (c *viewCache[K, T, V]) release(v V) {
	for _, old := range c.retire(v) {
		old.close()
	}
}

// retire ends one stream's use of a view. It returns the views that must be closed
// now: this one, or older idle views that make room for it.
func (c *viewCache[K, T, V]) retire(v V) (old []*viewBase[K, T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := v.base()
	b.refs--
	if b.refs > 0 {
		return nil
	}
	if c.all[b.key] != v { // forgotten
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

// forget makes the next stream of the key get another view. It is called by a stream that uses
// the view. The view is closed once no stream uses it.
func (c *viewCache[K, T, V]) forget(v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := v.base().key
	if c.all[key] == v {
		delete(c.all, key)
	}
}

// oldest returns the view that has been idle for longest; nil: none is idle. c.mu is held.
func (c *viewCache[K, T, V]) oldest() *viewBase[K, T] {
	_, oldest, ok := c.idle.GetOldest()
	if !ok {
		return nil
	}
	return oldest.base()
}

// remove removes an idle view, to be closed. c.mu is held.
func (c *viewCache[K, T, V]) remove(b *viewBase[K, T]) {
	c.removeIdle(b)
	delete(c.all, b.key)
}

// evictOldest removes the oldest view to make room; nil: none is idle. c.mu is held.
func (c *viewCache[K, T, V]) evictOldest() *viewBase[K, T] {
	b := c.oldest()
	if b != nil {
		c.remove(b)
		c.evicted++
	}
	return b
}

// makeRoom closes idle views, the oldest first, until no more than the quota is in use.
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

// expire closes the views that have been idle for linger.
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

// count returns the number of views, of those among them that are idle, and of those that were
// closed to make room.
func (c *viewCache[K, T, V]) count() (all, idle int, evicted uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all), c.idle.Len(), c.evicted
}

// viewUse is a copy of what a view has, for metrics and debug pages.
type viewUse[K comparable, T any] struct {
	key     K
	streams int // 0: it is idle
	newest  T
}

// uses lists all views that watch.
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
			continue // acquired just now
		}
		u := list[i]
		u.newest, _ = watch.Get()
		watching = append(watching, u)
	}
	return watching
}

const (
	// maxSteps is how many steps to the newest set a view keeps.
	maxSteps = 8
	// manyEndpoints is the number of endpoints from which on a set is large.
	manyEndpoints = 64
	// firstKept is how long a view of a large set keeps the messages that streams begin with: most of
	// these come together, and such messages are a large part of what the gateway has.
	firstKept = time.Second
)

// getView is the view of one federation.Key, shared by all Get streams of that key:
// the sets that the table publishes, with their encoded messages. Each message is
// encoded once, by the first stream that needs it, and all streams send the same
// bytes. That includes streams that missed the same sets: they need the same step. Those
// that streams of a large set begin with are encoded anew after firstKept.
type getView struct {
	viewBase[federation.Key, *federation.Set]
	enc wire.Encoder

	// under mu
	steps       []*lazyFrames // to the newest set, the latest last
	costVersion uint64        // the version of the set that cost is for
}

func newGetView(k federation.Key, enc wire.Encoder) *getView {
	v := &getView{enc: enc.InZone(k.Client.Zone)}
	v.key = k
	return v
}

// endpointBytes is about how much memory an endpoint takes in a set and its messages.
const endpointBytes = 300

// viewBytes is about how much memory a view takes, without its endpoints and members.
// memberBytes is how much a member of the service takes for each port, serving or not.
const (
	viewBytes   = 1 << 10
	memberBytes = 400
)

// costOfSet is about how much memory a view takes.
func costOfSet(s *federation.Set) int {
	return viewBytes + len(s.Endpoints)*endpointBytes + s.Members*memberBytes
}

// updateCost takes what the newest set costs of the quota: a view may have begun with a
// small set.
func (v *getView) updateCost(set *federation.Set) {
	v.mu.Lock()
	defer v.mu.Unlock() // also after a panic, which ends one stream only
	v.updateCostLocked(set)
}

// updateCostLocked is updateCost while v.mu is held.
func (v *getView) updateCostLocked(set *federation.Set) {
	if v.watch != nil && set.Version > v.costVersion { // in tests a view may have no watch
		v.costVersion = set.Version
		v.setCost(int64(costOfSet(set)))
	}
}

// becomeIdle implements cachedView. A view without endpoints is not kept: it is cheap
// to make again, and clients can make up any number of names. A view of an undeclared
// port is not kept either, because it would keep its place among
// federation.MaxUndeclaredPorts. While a cluster is pending, any port may be undeclared.
func (v *getView) becomeIdle() int {
	set, _ := v.get()
	if len(set.Endpoints) == 0 || set.Undeclared || !set.Complete {
		return 0
	}
	return costOfSet(set)
}

// lazyFrames are the messages of a step, encoded when frames is called first.
type lazyFrames struct {
	from, to *federation.Set // from is nil: the whole set, for a stream that begins
	all      bool
	frames   func() []*wire.Frame
}

// messages returns the messages of the step from one set (of this or of another view; nil:
// none) to a set of this view; see wire.Encoder.Step.
func (v *getView) messages(from, to *federation.Set, all bool) []*wire.Frame {
	return v.lazy(from, to, all).frames()
}

// messagesAfterHints returns the messages of the step from a set that node hints have chosen. They add all
// endpoints of the new set, as for a stream that begins. When node hints no longer count, the streams of all
// nodes take such a step at once, each from another set of few endpoints. So they share the large messages.
func (v *getView) messagesAfterHints(from, to *federation.Set) []*wire.Frame {
	return append(slices.Clip(v.messages(nil, to, false)), v.enc.Removal(from, to)...)
}

// messagesFor returns the messages of a step for one stream alone: see stream.setAlone.
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
		version := to.Version // not f, which would be kept for as long, whatever comes
		time.AfterFunc(firstKept, func() { v.forgetFirst(version) })
	}
	return f
}

// keep remembers a step, and forgets those to older sets. It returns false for one to an older
// set. v.mu is held.
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

// forgetFirst forgets first messages, unless those of another set are there by now.
func (v *getView) forgetFirst(version uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	first := func(f *lazyFrames) bool { return f.from == nil && f.to.Version == version }
	v.steps = slices.DeleteFunc(v.steps, first)
}

// profileView is the view of one federation.ProfileKey, shared by all GetProfile
// streams of that key: the newest profile, with its encoded messages.
//
// One profile can have several messages. A ServiceProfile that is rejected takes no
// routes away from proxies: each keeps the routes of that service that it has
// received last. So the message depends on those, and each such variant is encoded
// once for all streams that need it.
type profileView struct {
	viewBase[federation.ProfileKey, *federation.Profile]
	server *Server

	variants []*profileVariant // under mu: all of one profile, the newest that a stream has asked for
}

func newProfileView(k federation.ProfileKey, s *Server) *profileView {
	v := &profileView{server: s}
	v.key = k
	return v
}

// profileVariant is a profile with a routing, encoded.
type profileVariant struct {
	profile *federation.Profile
	routing *wire.Routing
	frames  []*wire.Frame // one
}

// sentRoutes are the routes that a proxy has received last, and their service. The
// zero value: none.
type sentRoutes struct {
	service federation.ServiceID
	routes  *federation.ServiceProfile // nil: the default
}

// becomeIdle implements cachedView. It frees the messages, which are cheap to make
// again. The view of a destination that does not exist or is not known is not kept:
// clients can make up any number of names and addresses.
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

// costOfProfile is about how much memory a view takes. Routes are the ServiceProfile's,
// not the view's.
func costOfProfile(*federation.Profile) int { return viewBytes }

// variant returns the newest profile, as it is sent to a proxy that has received
// those routes, and a channel that is closed once the profile is replaced.
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
		v.server.metrics.profileChanged(v.key, p) // streams are about to get another profile
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
