package follow

import (
	"cmp"
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"isthmus/internal/sleep"
)

// backoff is the time between attempts. It is always less than 4 s, so that a cluster
// that is back is watched within 10 s however long it was away. It is copied and
// never written.
var backoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Cap: 3 * time.Second, Steps: 10, Jitter: 0.3}

// backoffReset is how long nothing must fail before the backoff starts over.
const backoffReset = 30 * time.Second

// emptyWatch is how long a watch lasts at least that may end without having brought anything, and be followed by
// another one: a server that answers every watch by nothing would hide all changes.
const emptyWatch = time.Second

// step is what follows the end of a list or watch.
type step uint8

const (
	listLater  step = iota // after a pause
	watchOn                // from the version that came last
	watchLater             // the same, after a pause
)

// run lists and watches until ctx ends.
func (r *Resource) run(ctx context.Context) {
	delay := backoff.DelayWithReset(clock.RealClock{}, backoffReset)
	for next := listLater; ctx.Err() == nil; {
		next = r.once(ctx, next)
		if next != watchOn && ctx.Err() == nil {
			r.pause(ctx)
			sleep.For(ctx, delay())
		}
	}
}

// once lists, unless a watch is to go on, and watches until that ends.
func (r *Resource) once(ctx context.Context, do step) step {
	var w *opened
	var err error
	if do == listLater {
		if w, err = r.list(ctx); err != nil {
			r.failed(ctx, err)
			return listLater
		}
	}
	if w == nil {
		if w, err = r.open(ctx, r.version, false); err != nil {
			r.failed(ctx, err)
			return afterNoWatch(err)
		}
		r.readable(true)
	}
	defer w.close()
	return r.watch(ctx, w)
}

// watch applies what comes by a watch until that ends.
func (r *Resource) watch(ctx context.Context, w *opened) step {
	r.watching.Store(w)
	defer r.watching.Store(nil)
	for {
		if r.Stale() {
			return listLater
		}
		e, err := w.next()
		if err == nil {
			err = r.pace(ctx)
		}
		if err != nil {
			return w.after(err)
		}
		if err := r.feed.apply(e); err != nil { // the budget's: the rest is left to a list
			r.failed(ctx, err)
			return listLater
		}
		r.version = cmp.Or(e.version, r.version)
	}
}

// afterNoWatch returns what follows a watch that could not be started. If the server could not be reached
// it may have been restored from a backup meanwhile, and its versions count from there: a watch from the last one would
// miss changes. So the objects are listed again.
func afterNoWatch(err error) step {
	if apierrors.IsTooManyRequests(err) {
		return watchLater
	}
	return listLater
}

// after returns what follows a watch that has ended by an error. One that has fallen silent gives way to a list, which
// shows whether the server still answers, and what has been missed: a new watch could be as silent.
func (w *opened) after(err error) step {
	switch {
	case apierrors.IsTooManyRequests(err):
		return watchLater
	case broken(err) && (w.brought || time.Since(w.began) >= emptyWatch):
		return watchOn
	}
	return listLater
}
