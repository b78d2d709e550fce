package follow

import (
	"cmp"
	"context"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"

	"isthmus/internal/sleep"
)

// backoff is the pause between attempts. It is always less than 4 s, so that a cluster that is back is watched within
// 10 s, however long it was away. The loop works on a copy.
var backoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Cap: 3 * time.Second, Steps: 10, Jitter: 0.3}

// steadyWatch is how long a watch must last before the backoff starts over.
const steadyWatch = 30 * time.Second

// emptyWatch is how long a watch must last to show that the server is there, unless it brings something. A server that
// ends each watch before that hides all changes.
const emptyWatch = time.Second

// resumeWithin is how long after the last sign of the server a watch may be resumed. After a longer outage the server
// may have been restored from a backup and have counted past the last version again, which no version would show.
const resumeWithin = time.Minute

// lostAfter is how long a server may have been silent, at most, when its connection is found to be lost. Pings and
// keep-alive probes find that: see package kube.
const lostAfter = 15 * time.Second

// step is what the loop does next.
type step uint8

const (
	listLater   step = iota // list after a pause
	watchOn                 // watch from the last version
	watchLater              // watch from the last version after a pause
	resumeLater             // after a pause, watch from the last version if the server still knows it, or else list
)

// run lists and watches until ctx ends.
func (r *Resource) run(ctx context.Context) {
	r.backoff = backoff
	for next := listLater; ctx.Err() == nil; {
		next = r.once(ctx, next)
		if next != watchOn && ctx.Err() == nil {
			r.pause(ctx)
			sleep.For(ctx, max(r.unwatchedPause(r.backoff.Step()), time.Until(r.throttled)))
		}
	}
}

// once lists if need be, and watches until the watch ends.
func (r *Resource) once(ctx context.Context, do step) step {
	if do == resumeLater {
		same, err := r.sameHistory(ctx)
		if err != nil {
			r.failed(ctx, err)
			return afterNoAnswer(err, do)
		}
		if !same {
			do = listLater
		}
	}
	var w *opened
	var err error
	if do == listLater {
		if w, err = r.list(ctx); err != nil {
			r.watchRefusals = 0
			r.failed(ctx, err)
			return listLater
		}
	}
	if w == nil {
		if w, err = r.open(ctx, r.version, false); err != nil {
			if do == listLater {
				err = r.unwatched(err)
			}
			r.failed(ctx, err)
			return afterNoAnswer(err, watchLater)
		}
		r.readable(true)
	}
	r.watchRefusals = 0
	defer w.close()
	return r.watch(ctx, w)
}

// sameHistory reports whether a watch from the last version would miss nothing. It asks the server for its present
// version, which is lower than the last one after a restore from a backup.
func (r *Resource) sameHistory(ctx context.Context) (bool, error) {
	if time.Since(r.heard) > resumeWithin {
		return false, nil
	}
	version, err := r.newestVersion(ctx)
	if err != nil {
		return false, err
	}
	order, err := resourceversion.CompareResourceVersion(version, r.version)
	return err == nil && order >= 0, nil
}

// watch applies the events of a watch until it ends.
func (r *Resource) watch(ctx context.Context, w *opened) step {
	r.watching.Store(w)
	defer r.watching.Store(nil)
	began := time.Now()
	for {
		if r.Stale() {
			return listLater
		}
		e, err := w.next()
		if err == nil {
			r.heard = time.Now()
			err = r.pace(ctx)
		}
		if err != nil {
			if time.Since(began) >= steadyWatch {
				r.backoff = backoff
			}
			r.throttle(err)
			return r.afterWatch(w, err)
		}
		if err := r.feed.apply(e); err != nil { // the budget's: the rest is left to a list
			r.failed(ctx, err)
			return listLater
		}
		r.version = cmp.Or(e.version, r.version)
	}
}

// afterNoAnswer returns the step after a watch that could not be opened, or a version that could
// not be read. again is the step to repeat if the server only asks for a pause. If the server
// refuses the request itself, the server may have lost the kind or may no longer know the version.
// Then the objects are listed.
func afterNoAnswer(err error, again step) step {
	switch {
	case apierrors.IsTooManyRequests(err):
		return again
	case answered(err), outdated(err):
		return listLater
	}
	return resumeLater
}

// afterWatch returns what follows a watch that has ended by an error. A silent watch gives way to a list, which shows
// whether the server still answers, and what was missed: a new watch could be as silent.
func (r *Resource) afterWatch(w *opened, err error) step {
	lost := utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsTimeout(err)
	empty := !w.brought && time.Since(w.began) < emptyWatch
	switch {
	case apierrors.IsTooManyRequests(err):
		return watchLater
	case !broken(err) && !lost, empty && err == io.EOF:
		return listLater
	case empty:
		return resumeLater
	}
	switch {
	case lost:
		r.heardAt(time.Now().Add(-lostAfter))
		return resumeLater
	case err != errOverdue:
		r.heardAt(time.Now()) // pings have shown until a moment ago that the connection was alive
	}
	return watchOn
}

// heardAt notes that the server was there at a time. A later time that is known already stays.
func (r *Resource) heardAt(at time.Time) {
	if at.After(r.heard) {
		r.heard = at
	}
}
