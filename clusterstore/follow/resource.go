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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// listTimeout is how long one answer to a list may take.
	listTimeout = 30 * time.Second
)

// Resource follows one kind of object: a reflector lists and watches it and fills the
// kind's Store. Failures are reported to the Resource's Group.
type Resource struct {
	// fixed
	name    string
	needed  bool
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
		example: zero,
		calls:   k.Calls,
		fields:  k.Fields,
		report:  k.Report,
		tried:   make(chan struct{}),

		requests: rate.NewLimiter(requestRate, requestBurst),
	}
	if k.Lag != nil {
		r.lag = &lag{seconds: k.Lag}
	}
	r.feed = &feed[O, T]{kind: k, resource: r}
	return r
}

// Name is the kind's.
func (r *Resource) Name() string { return r.name }

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

// tryList gets one page. It is compacted before the next one is requested.
func (r *Resource) tryList(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if err := r.nextListErr; err != nil {
		r.nextListErr = nil
		return nil, err
	}
	if err := r.takeOver(); err != nil {
		return nil, err
	}
	if err := r.admitPage(ctx, opts.Continue != ""); err != nil {
		return nil, err
	}
	if opts.ResourceVersion == "0" {
		opts.ResourceVersion = "" // for version "0" servers ignore the limit and send all objects at once
	}
	limited, stop := context.WithTimeout(ctx, listTimeout)
	defer stop()
	opts.FieldSelector = r.fields
	if opts.Continue == "" {
		r.feed.beginList()
	}
	limited, request := r.begin(limited, "a list of ")
	defer request.End()
	list, err := r.calls.List(limited, opts)
	var compact *metainternal.List
	if err == nil {
		r.group.event()
		r.watchUnproven = true
		compact, err = r.feed.compactList(list)
	}
	if over := r.takeOver(); over != nil {
		return nil, over
	}
	if outdated(err) {
		return nil, r.startOver(ctx, err)
	}
	if err != nil {
		r.failed(ctx, err)
		return nil, err
	}
	r.countPage(compact)
	return compact, nil
}

// tryWatch starts a watch. A reflector asks for two kinds. One begins with all objects
// (a streamed list); if the server answers that it doesn't support that, the
// reflector lists in pages. The other goes on from the version of a list.
func (r *Resource) tryWatch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	lists := streamsList(opts)
	if err := r.takeOver(); err != nil {
		if lists {
			r.nextListErr = err
		}
		return nil, err
	}
	if lists && r.streams >= maxStreams {
		return nil, errNoStreams // the reflector will list
	}
	if err := r.admit(ctx); err != nil {
		return nil, err
	}
	if lists {
		r.feed.beginList()
	}
	opts.FieldSelector = r.fields
	watchCtx, _ := r.begin(ctx, "") // ends with the watch's body
	w, err := r.calls.Watch(watchCtx, opts)
	if lists && (err == nil || outdated(err)) {
		r.streams++
	}
	switch {
	case err == nil:
		r.watchUnproven, r.watching = false, r.guard(w, opts)
		if !lists { // or else the objects are readable once all have come
			r.outdated = 0
			r.healthy()
		}
		return r.watching, nil
	case outdated(err):
		return nil, r.startOver(ctx, err)
	case !lists:
		r.failed(ctx, err)
		return nil, relist(err)
	case answered(err):
		return nil, err // the reflector will list, which shows whether that fails too
	}
	// A list would fail in the same way. And before it retries an error that it
	// knows to be temporary, a reflector waits regardless of ctx: so hide the type.
	r.failed(ctx, err)
	r.nextListErr = hidden{err}
	return nil, r.nextListErr
}

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
