package clusterstore

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

// resource follows one kind of object of a cluster: a reflector lists and
// watches it and feeds the state, and every failure is reported to the health.
type resource struct {
	// fixed
	name    string
	needed  bool
	example runtime.Object // of the type that watches deliver
	calls
	noWatchList bool
	feed        feeder
	health      *health
	lag         *lag          // of the reflector's goroutine; nil: not measured
	settled     chan struct{} // closed once listed or, if it is optional, once failed

	settle  sync.Once
	objects atomic.Int64

	condition condition // under health.mu

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

// run lists and watches until ctx ends. It drives the reflector itself, since the
// reflector's own loop hands every failure to a process-wide error handler.
func (r *resource) run(ctx context.Context) {
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
func (r *resource) IsWatchListSemanticsUnSupported() bool { return r.noWatchList }

// tryList gets one page, made small before the next one is asked for.
func (r *resource) tryList(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
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
	list, err := r.list(limited, opts)
	if err != nil {
		r.failed(ctx, err)
		return nil, err
	}
	r.health.event()
	r.unproven = true
	return r.feed.compactList(list)
}

// tryWatch starts a watch. A reflector asks for two kinds. The one that begins
// with all objects takes the place of a list; if the server says that it can't
// do that, the reflector lists. The other goes on after a list.
func (r *resource) tryWatch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if err := r.pause(ctx); err != nil {
		return nil, err
	}
	r.unguard()
	w, err := r.watch(ctx, opts)
	lists := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	switch {
	case err == nil:
		r.unproven = false
		if lists { // it is proven once all objects are there
			r.guard = time.AfterFunc(silence, func() { r.silent(w) })
		} else {
			r.health.heal(&r.condition)
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
func (r *resource) silent(w watch.Interface) {
	if !r.needed {
		r.settle.Do(func() { close(r.settled) })
	}
	r.health.fail(&r.condition, errSilent)
	w.Stop()
}

// progress notes that another object of a list has come.
func (r *resource) progress() {
	if r.guard != nil {
		r.guard.Reset(silence)
	}
}

func (r *resource) unguard() {
	if r.guard != nil {
		r.guard.Stop()
		r.guard = nil
	}
}

// pause waits for as long as the resource is not to be tried.
func (r *resource) pause(ctx context.Context) error {
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

func (r *resource) failed(ctx context.Context, err error) {
	if ctx.Err() != nil || outdated(err) {
		return
	}
	if !r.needed {
		r.settle.Do(func() { close(r.settled) })
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			r.refused = time.Now().Add(refusedPause)
		}
	}
	r.last = err
	// The URL of the request differs from attempt to attempt, and helps nobody.
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	r.health.fail(&r.condition, err)
}

// listed is called by the feed when all objects have been taken over.
func (r *resource) listed() {
	r.unguard()
	if r.unproven {
		r.health.listed(&r.condition)
	} else {
		r.health.heal(&r.condition)
	}
	r.settle.Do(func() { close(r.settled) })
}

// outdated tells whether the server no longer, or not yet, knows the version
// that we asked to go on from. The reflector then starts over by itself.
func outdated(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// answered tells whether a server refused the request for what it is, as
// opposed to being unreachable or unable.
func answered(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != 429
}

// anew returns what makes a reflector list again after a watch that could not be
// started. If it knew that there was no server it would, once there is one, just
// go on from where it was; but that may be a server that has been restored from
// a backup, whose versions count from there again: it would tell of nothing.
func anew(err error) error {
	if errors.As(err, new(apierrors.APIStatus)) {
		return err // an answer
	}
	return hidden{err}
}

// hidden is an error that does not show what it wraps, but for what it was.
type hidden struct{ err error }

func (h hidden) Error() string        { return h.err.Error() }
func (h hidden) Is(target error) bool { return target == h.err }

// errType says that a server sent something that was not asked for.
func errType(o any) error { return fmt.Errorf("unexpected object of type %T", o) }
