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
	// watchTime is the shortest duration that a watch requests. The requested duration is random,
	// up to twice as long, so that watches don't all end at the same time.
	watchTime = 5 * time.Minute
	// watchOverrun is how much longer than requested a watch may last.
	watchOverrun = 10 * time.Second
	// watchSilence is how long a watch may be without an event or a bookmark. API servers send
	// bookmarks once a minute (defaultBookmarkFrequency in k8s.io/apiserver/pkg/storage/cacher).
	watchSilence = 100 * time.Second
	// shortWatch is the shortest normal duration of a watch.
	shortWatch = 10 * time.Second
)

// Reasons why Isthmus ends a watch.
var (
	errSilent  = errors.New("nothing has come")
	errOverdue = errors.New("the server does not end the watch")
	errAgain   = errors.New("the objects are to be listed again")
)

// event is an event of a watch, with a compacted object.
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

// watcher is one watch. The watcher ends if it is silent for too long, or lasts longer than
// requested. Only the goroutine that opened it may use it, except for stop.
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

// next waits for the next event. Only the time in next counts as silence.
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

// note records a trouble if the end of the watch indicates one.
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

// broken reports whether a watch has merely ended, so that a new one can continue from the last
// version.
func broken(err error) bool {
	if errors.As(err, new(apierrors.APIStatus)) {
		return false // an error from the server, whatever its text
	}
	return err == io.EOF || err == errOverdue || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}

// lag measures the age of received updates of one resource by the times in their managedFields. API
// servers write these times in whole seconds. The goroutine of Resource.run owns a lag. A nil lag
// measures nothing.
//
// Not every update has a new time. For example, an update that only marks an object for deletion
// keeps the time of the last change, which may be long ago. Storing the time of each object would
// cost memory for every Pod. Instead, lag uses the fact that a new time is nearly always the newest
// of all. An update counts if no newer time has been seen, and an equal time was first seen at most
// a second ago. Anybody may write a time in the future into an object. Such a time counts as now,
// because otherwise no update would count until then.
type lag struct {
	seconds prometheus.Observer // fixed

	newest int64     // Unix time in seconds
	since  time.Time // when an update with that time was first received; zero if the time came from a list
}

// updated returns the Unix time of an object's last update in seconds, or zero if the object has no
// such time.
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

// seen records the time of a listed or new object, which is not an update.
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
