package follow

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// Each watch requests a random duration between watchTime and twice watchTime, so that the
	// watches do not all end at the same time.
	watchTime = 5 * time.Minute
	// A watch may last longer than requested, but by no more than watchOverrun.
	watchOverrun = 10 * time.Second
	// watchSilence is the longest time that a watch may be open without receiving an event or a
	// bookmark. API servers send bookmarks once a minute (defaultBookmarkFrequency in
	// k8s.io/apiserver/pkg/storage/cacher).
	watchSilence = 100 * time.Second
	// A watch that is shorter than shortWatch may count as a trouble.
	shortWatch = 10 * time.Second
)

// These errors are the reasons why Isthmus ends a watch.
var (
	errSilent  = errors.New("nothing was received")
	errOverdue = errors.New("the server did not end the watch")
	errAgain   = errors.New("the objects must be listed again")
)

// event is an event of a watch whose object has been compacted.
type event struct {
	kind    watch.EventType
	object  any // a *compacted of the feed
	version string
}

// events are the decoded events of one watch.
type events interface {
	next() (event, error)
	Close() error
}

// watcher is one open watch. A watcher ends its watch if the watch receives nothing for too long,
// or lasts longer than requested. Only the goroutine that opened a watcher may use it, but any
// goroutine may call stop.
type watcher struct {
	from     events // events from the server
	resource *Resource
	began    time.Time
	end      time.Time // when the watch is overdue
	brought  bool      // an event or a bookmark was received

	ctx   context.Context // ends with the watch; its cause is why Isthmus ended the watch
	stop  context.CancelCauseFunc
	timer *time.Timer // ends ctx
}

// newWatcher requests a watch that begins at the resource's last version.
func newWatcher(ctx context.Context, r *Resource) (*watcher, error) {
	seconds := int64((1 + rand.Float64()) * watchTime.Seconds())
	w := &watcher{resource: r, began: time.Now()}
	w.end = w.began.Add(time.Duration(seconds)*time.Second + watchOverrun)
	w.ctx, w.stop = context.WithCancelCause(ctx)
	var err error
	w.from, err = r.feed.open(w.ctx, metav1.ListOptions{
		ResourceVersion:     r.version,
		FieldSelector:       r.fields,
		AllowWatchBookmarks: true,
		TimeoutSeconds:      &seconds,
	})
	if err != nil {
		w.stop(nil)
		return nil, err
	}
	w.timer = time.AfterFunc(watchSilence, w.expire)
	return w, nil
}

// expire ends a silent or overdue watch.
func (w *watcher) expire() {
	if time.Now().Before(w.end) {
		w.stop(errSilent)
	} else {
		w.stop(errOverdue)
	}
}

func (w *watcher) close() {
	w.stop(nil)
	w.timer.Stop()
	_ = w.from.Close()
}

// next waits for the next event. The time between two calls to next does not count towards
// watchSilence.
func (w *watcher) next() (event, error) {
	if !time.Now().Before(w.end) { // without a pause between events, the timer might never fire
		w.note(errOverdue)
		return event{}, errOverdue
	}
	w.timer.Reset(min(watchSilence, time.Until(w.end)))
	e, err := w.from.next()
	w.timer.Stop()
	if err != nil {
		if why := context.Cause(w.ctx); why != nil {
			err = why
		}
		w.note(err)
		return event{}, err
	}
	w.brought = true
	if e.kind == watch.Bookmark {
		w.resource.bookmarks = true
	}
	return e, nil
}

// note records a trouble if a watch has ended in a way that indicates one.
func (w *watcher) note(err error) {
	r := w.resource
	switch {
	case err == errSilent:
		if r.bookmarks { // without bookmarks, silence may mean that nothing changed
			r.note(silentWatch, nil)
		}
	case err == errOverdue:
		r.note(overdueWatch, nil)
	case w.ctx.Err() != nil || time.Since(w.began) >= shortWatch:
	case outdated(err):
		r.note(expiredAtOnce, nil)
	case broken(err):
		r.note(endedSoon, nil)
	default:
		r.note(failsSoon, err)
	}
}

// broken reports whether a watch ended without an error from the server, so that a new watch can
// continue from the last version.
func broken(err error) bool {
	if errors.As(err, new(apierrors.APIStatus)) {
		return false // an error from the server, whatever its text
	}
	return err == io.EOF || err == errOverdue || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}

// lag measures the age of one resource's updates when they are received. The age is computed from
// the times in an object's managedFields, which API servers write in whole seconds. Only the
// goroutine that executes Resource.run uses a lag. A nil lag measures nothing.
//
// Some updates do not set a new time. For example, if an update only marks an object for deletion,
// the newest time in the object is that of an earlier change. The earlier change may have happened
// long ago. To detect new times exactly, Isthmus would need memory for the time of every object.
// Instead, lag relies on the fact that a new time is nearly always the newest time of the resource.
// An update is measured only if no object had a newer time, and if the update's time was first
// received at most a second ago. Any user may write a time in the future into an object. Isthmus
// replaces times in the future with the current time, because otherwise no update would be measured
// until that future time.
type lag struct {
	seconds prometheus.Observer // fixed

	newest int64     // Unix time in seconds
	since  time.Time // when an update with that time was first received; zero if the time came from a list
}

// updated returns the time of an object's last update, as a Unix time in seconds. If the object's
// managedFields contain no update, the result is zero.
func (l *lag) updated(o metav1.Object) (newest int64) {
	if l == nil {
		return 0
	}
	for _, f := range o.GetManagedFields() {
		if f.Operation == metav1.ManagedFieldsOperationUpdate && f.Time != nil {
			newest = max(newest, f.Time.Unix())
		}
	}
	return min(newest, time.Now().Unix())
}

// seen records the time of a listed or new object. Because the object was not updated, seen does
// not measure the lag.
func (l *lag) seen(updated int64) {
	if l != nil && updated > l.newest {
		l.newest = updated
		l.since = time.Time{}
	}
}

// observe measures an update.
func (l *lag) observe(updated int64) {
	if l == nil || updated < l.newest || updated == 0 {
		return
	}
	now := time.Now()
	if updated > l.newest {
		l.newest = updated
		l.since = now
	} else if now.Sub(l.since) > time.Second {
		return
	}
	l.seconds.Observe(max(0, now.Sub(time.Unix(updated, 0)).Seconds()))
}
