package follow

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"isthmus/clusterstore/decode"
)

// Resource follows one kind of object: it lists and watches it and fills the kind's Store. Failures are
// reported to the Resource's Group.
type Resource struct {
	// fixed
	name   string
	needed bool
	aside  bool
	later  bool                                // Kind.Unawaited
	serves func(context.Context) (bool, error) // may be nil
	fields string
	report func(error) // may be nil
	feed   feeder
	group  *Group
	lag    *lag // nil: not measured
	// tried is closed once the resource is listed or, if it is optional, once it is refused,
	// confirmed to be absent, or over budget.
	tried chan struct{}

	triedOnce sync.Once // closes tried
	objects   atomic.Int64
	trouble   trouble
	requests  *rate.Limiter
	wanted    atomic.Int64           // how often ListAgain was called
	listedFor atomic.Int64           // wanted, as the newest whole list began
	watching  atomic.Pointer[opened] // nil: no watch goes on

	state    resourceState     // under group.mu
	unusable map[string]string // under group.mu: why objects are refused, by key

	// of the goroutine of run
	version   string        // up to which all is in the Store
	rest      rest          // why nothing is requested for a while
	bookmarks bool          // the API server has shown that it sends them
	streams   int           // streamed lists that have begun, since the last whole one
	outdated  int           // answers that a version is too old or not known yet, since a watch has begun
	crowded   bool          // the budget has refused something, and no list has fitted since
	took      time.Duration // reading the newest list
	relists   bool          // of a list some objects have come: further lists are paced

	backoff wait.Backoff // what is left of it
	heard   time.Time    // when the last list ended, or a watch last showed that the server was there

	watchRefusals int // watches in a row that were refused by 403, each after a list

	throttled time.Time // until when the server wants no request, by Retry-After; zero if it never said
}

// feeder decodes what a Resource requests, and has its Store.
type feeder interface {
	Feed
	open(context.Context, metav1.ListOptions) (events, error)
	apply(event) error
	beginList()
	stagePage(context.Context, metav1.ListOptions) (metav1.ListMeta, int, error)
	skipPage(context.Context, metav1.ListOptions) (metav1.ListMeta, int, error)
	stageEvent(context.Context, event) error
	abandonList()
	commit(watched bool)
	clear()
	useBudget()
}

// New returns a Resource for a kind of object. Pass it to [NewGroup]: the Group starts
// it.
func New[O decode.Object, T any](k Kind[O, T]) *Resource {
	r := &Resource{
		name:   k.Name,
		needed: k.Needed,
		aside:  k.Aside,
		later:  k.Unawaited,
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

// Feed is for tests: see there.
func (r *Resource) Feed() Feed { return r.feed }

// ListAgain makes the resource be listed anew soon, since other objects are to be kept than before, or something else of them: the
// kind's Compact returns something else. It does not block, and may be called at any time.
func (r *Resource) ListAgain() {
	r.wanted.Add(1)
	if w := r.watching.Load(); w != nil {
		w.stop(errAgain)
	}
}

// Stale reports whether ListAgain has been called since the newest whole list began. In the kind's Applied that is the list that has
// just been put into the Store, if one has.
func (r *Resource) Stale() bool { return r.listedFor.Load() != r.wanted.Load() }

// readable records that all objects are in the Store. watched: they came by a watch, or one has begun.
func (r *Resource) readable(watched bool) {
	if watched {
		r.outdated = 0
		r.group.setHealthy(&r.state)
	} else {
		r.group.setListed(&r.state)
	}
	if r.report != nil {
		r.report(nil)
	}
}

// failed records why a list, or the start of a watch, has failed. What was read stays. That a version is too old, or
// not known yet, is normal at times: it is a failure if it is the answer again and again.
func (r *Resource) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	r.throttle(err)
	if outdated(err) {
		r.note(expiredAtOnce, nil)
		if r.outdated++; r.outdated <= maxOutdated {
			return
		}
	}
	r.rest = restAfter(err, r.needed)
	r.crowded = r.crowded || isOver(err)
	if r.rest == forbidden || r.rest == overBudget && !r.needed {
		r.markTried()
	}
	shown := err
	// Leave out the request's URL: it differs from attempt to attempt.
	if u, ok := errors.AsType[*url.Error](err); ok {
		shown = u.Err
	}
	r.group.setFailed(&r.state, shown)
	if r.report != nil {
		r.report(err)
	}
}

// markTried lets the Group's first sync go on.
func (r *Resource) markTried() { r.triedOnce.Do(func() { close(r.tried) }) }
