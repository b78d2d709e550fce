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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"isthmus/clusterstore/decode"
)

// backoff is the time between attempts. It is always less than 4 s, so that a cluster
// that is back is watched within 10 s however long it was away. It is copied and
// never written.
var backoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Cap: 3 * time.Second, Steps: 10, Jitter: 0.3}

// backoffReset is how long nothing must fail before the backoff starts over.
const backoffReset = 30 * time.Second

// Resource follows one kind of object: a reflector lists and watches it and fills the
// kind's Store. Failures are reported to the Resource's Group.
type Resource struct {
	// fixed
	name   string
	needed bool
	aside  bool
	serves func(context.Context) (bool, error) // may be nil
	fields string
	report func(error) // may be nil
	feed   feeder
	group  *Group
	lag    *lag          // nil: not measured
	tried  chan struct{} // closed once listed or, if it is optional, once failed

	triedOnce sync.Once // closes tried
	objects   atomic.Int64
	drifted   atomic.Int64
	trouble   trouble
	bookmarks atomic.Bool // the API server has shown that it sends them
	requests  *rate.Limiter

	state    resourceState     // under group.mu
	unusable map[string]string // under group.mu: why objects are refused, by key

	// listing is held while a list is read. The goroutine of a reflector's list is left alone
	// by the reflector when that ends.
	listing sync.Mutex

	// of the reflector's goroutine, or of its list's, for which it waits
	denied   denial          // why an optional resource is to be left alone
	lastErr  error           // newest failure that was reported
	began    *opened         // a watch that began with all objects, which have come; nil: none
	proven   bool            // the newest objects came by a watch
	streams  int             // streamed lists that have begun, since the last whole one
	outdated int             // answers that a version is too old or not known yet, since a watch has begun
	watching watch.Interface // the newest watch; nil: none
	over     error           // the budget has refused what has come since the last list; nil: it has not
	crowded  bool            // the budget has refused something, and no list has fitted since
	took     time.Duration   // reading the newest list

	wasListed bool // at least once
}

// feeder is a store that a reflector fills, and that decodes for it.
type feeder interface {
	cache.ReflectorStore
	open(context.Context, metav1.ListOptions) (events, error)
	beginList()
	stagePage(context.Context, metav1.ListOptions) (metav1.ListMeta, int, error)
	stageEvent(context.Context, event) error
	abandonList()
	clear()
	useBudget()
	checkDrift(context.Context) (again bool)
	endChecks()
}

// New returns a Resource for a kind of object. Pass it to [NewGroup]: the Group starts
// it.
func New[O decode.Object, T any](k Kind[O, T]) *Resource {
	r := &Resource{
		name:   k.Name,
		needed: k.Needed,
		aside:  k.Aside,
		serves: k.Serves,
		fields: k.Fields,
		report: k.Report,
		tried:  make(chan struct{}),

		requests: rate.NewLimiter(requestRate, requestBurst),
	}
	if k.Lag != nil {
		r.lag = &lag{seconds: k.Lag}
	}
	r.feed = newFeed(k, r)
	return r
}

// Name is the kind's.
func (r *Resource) Name() string { return r.name }

// Feed is the store that the reflector fills. For tests without a reflector: they may
// call it directly with objects of the API, one call at a time.
func (r *Resource) Feed() cache.ReflectorStore { return r.feed }

// run lists and watches until ctx ends. It has a loop of its own, since that of the
// reflector passes every failure to a process-wide error handler.
func (r *Resource) run(ctx context.Context) {
	discard := logr.Discard() // failures are reported to the health
	ctx = klog.NewContext(ctx, discard)
	lw := &cache.ListWatch{ListWithContextFunc: r.list, WatchFuncWithContext: r.watch}
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, pagesOnly{}), nil, r.feed, cache.ReflectorOptions{
		Logger:          &discard,
		Name:            r.name,
		TypeDescription: r.name,
		Backoff:         &backoff,
	})
	defer r.feed.endChecks()
	defer r.endWatch()
	defer func() { r.listing.Lock(); defer r.listing.Unlock() }() // a list may be under way
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

// pagesOnly keeps reflectors from streaming lists by themselves, which would hold all objects
// beside those that are staged. They find its method by its name.
type pagesOnly struct{}

func (pagesOnly) IsWatchListSemanticsUnSupported() bool { return true }

func (r *Resource) failed(ctx context.Context, err error) {
	if ctx.Err() != nil || outdated(err) {
		return
	}
	if !r.needed {
		r.markTried()
		r.denied = denialOf(err)
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
	r.streams, r.crowded, r.wasListed = 0, false, true
	if !r.proven {
		r.readable(r.group.setListed)
		return
	}
	r.outdated = 0
	r.readable(r.group.setHealthy)
}

// exceed records and reports that the resource is over budget. What was read stays. The watch
// is ended: the next request is a list, after a pause.
func (r *Resource) exceed(err error) {
	r.over, r.crowded = err, true
	r.lastErr = err
	if !r.needed {
		r.markTried()
	}
	r.unreadable(err, err)
	if r.watching != nil {
		r.watching.Stop()
	}
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
