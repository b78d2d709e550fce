package follow

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// backoff is the time between attempts. It is always less than 4 s, so that a cluster
// that is back is watched within 10 s however long it was away. It is copied and
// never written.
var backoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Cap: 3 * time.Second, Steps: 10, Jitter: 0.3}

const (
	// backoffReset is how long nothing must fail before the backoff starts over.
	backoffReset = 30 * time.Second
	// pageSize is how many objects one page of a list has at most.
	pageSize = 500
)

// Resource follows one kind of object: a reflector lists and watches it and fills the
// kind's Store. Failures are reported to the Resource's Group.
type Resource struct {
	// fixed
	name    string
	needed  bool
	aside   bool
	example runtime.Object // a nil of the type that watches deliver
	calls   Calls
	fields  string
	report  func(error) // may be nil
	feed    feeder
	group   *Group
	lag     *lag          // of the reflector's goroutine; nil: not measured
	tried   chan struct{} // closed once listed or, if it is optional, once failed

	triedOnce sync.Once // closes tried
	objects   atomic.Int64
	trouble   trouble
	bookmarks atomic.Bool // the API server has shown that it sends them
	requests  *rate.Limiter
	watches   sync.WaitGroup // goroutines of watches
	relist    chan struct{}  // has an element if the watch is to give way to a new list
	afresh    atomic.Bool    // the next list shall be as new as the server's storage

	state resourceState // under group.mu

	// of the reflector's goroutine
	refused       refusal         // why an optional resource is to be left alone
	nextListErr   error           // the next list fails with this, without a request
	lastErr       error           // newest failure that was reported
	watchUnproven bool            // the newest objects came by a list: whether they can be watched is not known yet
	streams       int             // streamed lists that have begun, since the last list
	outdated      int             // answers that a version is too old or not known yet, since a watch has begun
	poorPages     int             // of a list, in a row
	watching      watch.Interface // the newest watch; nil: none

	over overBudget
}

// feeder is a store that a reflector fills.
type feeder interface {
	cache.TransformingStore
	compactList(runtime.Object) (*metainternal.List, error)
	clear()
	beginList() // a list is read from its first object on
	useBudget() // is called before anything else
}

// New returns a Resource for a kind of object. Pass it to [NewGroup]: the Group starts
// it.
func New[O runtime.Object, T any](k Kind[O, T]) *Resource {
	var zero O
	r := &Resource{
		name:    k.Name,
		needed:  k.Needed,
		aside:   k.Aside,
		example: zero,
		calls:   k.Calls,
		fields:  k.Fields,
		report:  k.Report,
		tried:   make(chan struct{}),

		requests: rate.NewLimiter(requestRate, requestBurst),
		relist:   make(chan struct{}, 1),
	}
	if k.Lag != nil {
		r.lag = &lag{seconds: k.Lag}
	}
	r.feed = &feed[O, T]{kind: k, resource: r}
	return r
}

// Name is the kind's.
func (r *Resource) Name() string { return r.name }

// Relist makes the resource be listed again as the API's storage has it, not a cache of the
// API server's, and watched from there. Objects stay until then. It waits for nothing.
func (r *Resource) Relist() {
	select {
	case r.relist <- struct{}{}:
	default: // it will be
	}
}

// Feed is the store that the reflector fills. For tests without a reflector: they may
// call it directly, one call at a time.
func (r *Resource) Feed() cache.ReflectorStore { return r.feed }

// run lists and watches until ctx ends. It has a loop of its own, since that of the
// reflector passes every failure to a process-wide error handler.
func (r *Resource) run(ctx context.Context) {
	discard := logr.Discard() // failures are reported to the health
	ctx = klog.NewContext(ctx, discard)
	lw := &cache.ListWatch{ListWithContextFunc: r.tryList, WatchFuncWithContext: r.tryWatch}
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, r), r.example, r.feed, cache.ReflectorOptions{
		Logger:          &discard,
		Name:            r.name,
		TypeDescription: r.name,
		Backoff:         &backoff,
	})
	reflector.WatchListPageSize = pageSize
	defer r.watches.Wait()
	defer r.stopProof()
	_ = backoff.DelayWithReset(clock.RealClock{}, backoffReset).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := reflector.ListAndWatchWithContext(ctx)
		if err != nil && !errors.Is(err, r.lastErr) {
			r.failed(ctx, err) // not one of our calls, but the reflector can't use what came
		}
		if ctx.Err() == nil {
			r.pause(ctx)
		}
		return false, nil
	}) // it only returns when ctx ends, with ctx's error
}

// IsWatchListSemanticsUnSupported is called by reflectors, which find it by this name.
func (r *Resource) IsWatchListSemanticsUnSupported() bool { return r.group.options.NoWatchList }

func (r *Resource) failed(ctx context.Context, err error) {
	if ctx.Err() != nil || outdated(err) {
		return
	}
	if !r.needed {
		r.markTried()
		r.refused = refusalOf(err)
	}
	r.lastErr = err
	shown := err
	// Leave out the request's URL: it differs from attempt to attempt.
	if u, ok := errors.AsType[*url.Error](err); ok {
		shown = u.Err
	}
	r.unreadable(err, shown)
}

// listed is called by the feed when all objects of a list are in the Store.
func (r *Resource) listed() {
	r.streams = 0
	r.afresh.Store(false)
	if r.watchUnproven {
		r.readable(r.group.setListed)
		return
	}
	r.outdated = 0
	r.group.setListed(&r.state)
	r.healthy()
}

// markTried lets the Group's first sync go on.
func (r *Resource) markTried() { r.triedOnce.Do(func() { close(r.tried) }) }

// readable reports that the objects can be read; record does so in the health.
func (r *Resource) readable(record func(*resourceState)) {
	record(&r.state)
	if r.report != nil {
		r.report(nil)
	}
}

// unreadable reports that the objects can't be read: why to the kind's Report, shown
// in the health.
func (r *Resource) unreadable(why, shown error) {
	r.group.setFailed(&r.state, shown)
	if r.report != nil {
		r.report(why)
	}
}
