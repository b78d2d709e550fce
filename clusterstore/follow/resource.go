package follow

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// backoff between attempts (copied, never written): always less than 4 s, so that
// a cluster that is back is followed within 10 s however long it was away.
var backoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Cap: 3 * time.Second, Steps: 10, Jitter: 0.3}

const (
	// backoffReset is how long all must be well for the backoff to start anew.
	backoffReset = 30 * time.Second
	// refusedPause is how long an optional resource that is forbidden or absent
	// is left alone. With the backoff on top it stays below 30 s.
	refusedPause = 25 * time.Second
	// pageSize bounds what one answer to a list holds.
	pageSize = 500
	// listTimeout is how long one answer to a list may take.
	listTimeout = 30 * time.Second
	// silence is how long a list that is streamed may pause. The limits of
	// the connection say nothing about that: something between us and a server
	// that hangs may well answer pings.
	silence = 10 * time.Second
)

var errSilent = fmt.Errorf("the API server has begun to list and then said nothing for %v", silence)

// Resource follows one kind of object: a reflector lists and watches it and feeds
// the kind's Store, and every failure is reported to the Group that it is one of.
type Resource struct {
	// fixed
	name    string
	needed  bool
	example runtime.Object // a nil of the type that watches deliver
	calls   Calls
	fields  string
	report  func(error) // nil: nobody wants to know
	feed    feeder
	group   *Group
	lag     *lag          // of the reflector's goroutine; nil: not measured
	tried   chan struct{} // closed once listed or, if it is optional, once failed

	try     sync.Once
	objects atomic.Int64

	condition condition // under group.mu

	// of the reflector's goroutine
	refused  time.Time   // not to be tried before
	skip     error       // what the next list fails with
	last     error       // newest failure that was reported
	unproven bool        // the newest state came by a list: whether it can be watched is not known yet
	guard    *time.Timer // ends a streamed list that has fallen silent; nil: none is under way
}

// feeder is a store that a reflector fills.
type feeder interface {
	cache.TransformingStore
	compactList(runtime.Object) (runtime.Object, error)
}

// New prepares to follow a kind of object. It is started by the Group that it is
// given to.
func New[O runtime.Object, T any](k Kind[O, T]) *Resource {
	var none O
	r := &Resource{
		name:    k.Name,
		needed:  k.Needed,
		example: none,
		calls:   k.Calls,
		fields:  k.Fields,
		report:  k.Report,
		tried:   make(chan struct{}),
	}
	if k.Lag != nil {
		r.lag = &lag{seconds: k.Lag}
	}
	r.feed = &feed[O, T]{kind: k, resource: r}
	return r
}

// Name is the kind's.
func (r *Resource) Name() string { return r.name }

// Feed is what the reflector fills. Without a reflector, others may fill it, one
// call at a time.
func (r *Resource) Feed() cache.ReflectorStore { return r.feed }

// run lists and watches until ctx ends. It drives the reflector itself, since the
// reflector's own loop hands every failure to a process-wide error handler.
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
	defer r.unguard()
	_ = backoff.DelayWithReset(clock.RealClock{}, backoffReset).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := reflector.ListAndWatchWithContext(ctx)
		if err != nil && !errors.Is(err, r.last) {
			r.failed(ctx, err) // not one of our calls, but the reflector can't use what came
		}
		return false, nil
	}) // which returns when ctx ends, and says so
}

// IsWatchListSemanticsUnSupported is what reflectors ask, by this name.
func (r *Resource) IsWatchListSemanticsUnSupported() bool { return r.group.options.NoWatchList }

// tryList gets one page, made small before the next one is asked for.
func (r *Resource) tryList(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if err := r.skip; err != nil {
		r.skip = nil
		return nil, err
	}
	if err := r.pause(ctx); err != nil {
		return nil, err
	}
	if opts.ResourceVersion == "0" {
		opts.ResourceVersion = "" // asked for version 0, servers ignore the limit and send all at once
	}
	limited, stop := context.WithTimeout(ctx, listTimeout)
	defer stop()
	opts.FieldSelector = r.fields
	list, err := r.calls.List(limited, opts)
	if err != nil {
		r.failed(ctx, err)
		return nil, err
	}
	r.group.event()
	r.unproven = true
	return r.feed.compactList(list)
}

// tryWatch starts a watch. A reflector asks for two kinds. The one that begins
// with all objects takes the place of a list; if the server says that it can't
// do that, the reflector lists. The other goes on after a list.
func (r *Resource) tryWatch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if err := r.pause(ctx); err != nil {
		return nil, err
	}
	r.unguard()
	opts.FieldSelector = r.fields
	w, err := r.calls.Watch(ctx, opts)
	lists := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	switch {
	case err == nil:
		r.unproven = false
		if lists { // it is proven once all objects are there
			r.guard = time.AfterFunc(silence, func() { r.silent(w) })
		} else {
			r.readable(r.group.heal)
		}
		return w, nil
	case outdated(err):
		return nil, err
	case !lists:
		r.failed(ctx, err)
		return nil, anew(err)
	case answered(err):
		return nil, err // so a list will be tried, and says how it is
	}
	// A list would fail in the same way. And where a reflector knows an error
	// as worth another attempt, it waits regardless of ctx: so hide what it is.
	r.failed(ctx, err)
	r.skip = hidden{err}
	return nil, r.skip
}

// silent ends a streamed list. It is no call of the reflector's goroutine.
func (r *Resource) silent(w watch.Interface) {
	if !r.needed {
		r.hasTried()
	}
	r.unreadable(errSilent, errSilent)
	w.Stop()
}

// progress notes that another object of a list has come.
func (r *Resource) progress() {
	if r.guard != nil {
		r.guard.Reset(silence)
	}
}

func (r *Resource) unguard() {
	if r.guard != nil {
		r.guard.Stop()
		r.guard = nil
	}
}

// pause waits for as long as the resource is not to be tried.
func (r *Resource) pause(ctx context.Context) error {
	left := time.Until(r.refused)
	if left <= 0 {
		return nil
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Resource) failed(ctx context.Context, err error) {
	if ctx.Err() != nil || outdated(err) {
		return
	}
	if !r.needed {
		r.hasTried()
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			r.refused = time.Now().Add(refusedPause)
		}
	}
	r.last = err
	shown := err
	// The URL of the request differs from attempt to attempt, and helps nobody.
	if u, ok := errors.AsType[*url.Error](err); ok {
		shown = u.Err
	}
	r.unreadable(err, shown)
}

// listed is called by the feed when all objects have been taken over.
func (r *Resource) listed() {
	r.unguard()
	if r.unproven {
		r.readable(r.group.listed)
	} else {
		r.readable(r.group.heal)
	}
}

// hasTried lets the first sync go on.
func (r *Resource) hasTried() { r.try.Do(func() { close(r.tried) }) }

// readable notes that the objects can be read; note does so in the health.
func (r *Resource) readable(note func(*condition)) {
	note(&r.condition)
	if r.report != nil {
		r.report(nil)
	}
}

// unreadable notes that the objects can't be read, and what the health shows of why.
func (r *Resource) unreadable(why, shown error) {
	r.group.fail(&r.condition, shown)
	if r.report != nil {
		r.report(why)
	}
}
