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
	// watchTime is the least duration that a watch requests. A watch requests up to twice as long, so that watches do
	// not all end at the same time.
	watchTime = 5 * time.Minute
	// watchOverrun is how much longer than requested a watch may last.
	watchOverrun = 10 * time.Second
	// watchSilence is how long a watch may bring neither an event nor a bookmark. API servers send bookmarks once a
	// minute (defaultBookmarkFrequency in k8s.io/apiserver/pkg/storage/cacher).
	watchSilence = 100 * time.Second
	// shortWatch is how long a watch lasts at least, unless something is wrong.
	shortWatch = 10 * time.Second
)

// Reasons why Isthmus ends a watch.
var (
	errSilent  = errors.New("nothing has come")
	errOverdue = errors.New("the server does not end the watch")
	errAgain   = errors.New("the objects are to be listed again")
)

// event is an event of a watch. Its object is compacted.
type event struct {
	kind    watch.EventType
	object  any // the feed's
	version string
}

// events are the events of one watch, as the feed decodes them.
type events interface {
	next() (event, error)
	Close() error
}

// watcher is one watch. It ends if nothing comes for too long, or if it lasts longer than requested. Only the goroutine
// that has opened it uses it, except stop.
type watcher struct {
	from     events // the server's
	resource *Resource
	began    time.Time
	end      time.Time // when the watch is overdue
	brought  bool      // an event or a bookmark has come

	ctx   context.Context // ends with the watch; its cause is why Isthmus ends the watch
	stop  context.CancelCauseFunc
	timer *time.Timer // ends ctx
}

// newWatcher requests a watch from the resource's last version.
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

// expire ends the watch.
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

// next waits for the next event. Only the time in next counts as silence.
func (w *watcher) next() (event, error) {
	if !time.Now().Before(w.end) { // the timer might never fire if there is always something to read
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

// note records a trouble if the end of a watch shows one.
func (w *watcher) note(err error) {
	r := w.resource
	switch {
	case err == errSilent:
		if r.bookmarks { // without bookmarks, nothing may have changed
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

// broken reports whether a watch has only ended, so that a new one can continue from the last version.
func broken(err error) bool {
	if errors.As(err, new(apierrors.APIStatus)) {
		return false // the server says why, whatever its words
	}
	return err == io.EOF || err == errOverdue || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}

// lag measures how old updates of one resource are when they come, by the times in
// their managedFields, which API servers write in whole seconds. It belongs to the
// goroutine of the resource's run. nil measures nothing.
//
// Not every update has a new time: one that only marks an object as being deleted
// leaves that of the last change, which may be long ago. To remember each object's
// time would cost memory for every Pod. But a time that advances is nearly always
// the newest of all: so an update counts if no newer time has been seen before,
// or an equal one within a second. A time in the future, which anybody may write into
// an object, counts as now, or no update would count until then.
type lag struct {
	seconds prometheus.Observer // fixed

	newest int64     // seconds since 1970
	since  time.Time // when an update with that time first came; zero: it came in a list
}

// updated returns when an object was last updated, in seconds since 1970; zero: it
// has no such time.
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

// seen remembers the time of an object that is not an update: it was listed, or is
// new.
func (l *lag) seen(updated int64) {
	if l != nil && updated > l.newest {
		l.newest, l.since = updated, time.Time{}
	}
}

// observe measures an update.
func (l *lag) observe(updated int64) {
	if l == nil || updated < l.newest || updated == 0 {
		return
	}
	now := time.Now()
	if updated > l.newest {
		l.newest, l.since = updated, now
	} else if now.Sub(l.since) > time.Second {
		return
	}
	l.seconds.Observe(max(0, now.Sub(time.Unix(updated, 0)).Seconds()))
}
