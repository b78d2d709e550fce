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
	watchTime    = 5 * time.Minute
	watchOverrun = 10 * time.Second // how much longer than requested a watch may last
	// watchSilence is the longest time that a watch may stay open without receiving an event or a
	// bookmark. API servers send a bookmark every minute (defaultBookmarkFrequency in
	// k8s.io/apiserver/pkg/storage/cacher).
	watchSilence = 100 * time.Second
	shortWatch   = 10 * time.Second // a shorter watch may be reported to Options.Trouble
)

// If Isthmus itself closes a watch, one of the following errors is the reason.
var (
	errSilent  = errors.New("nothing was received")
	errOverdue = errors.New("the server did not end the watch")
	errAgain   = errors.New("the objects must be listed again")
)

// event is a watch event whose object has been compacted.
type event struct {
	kind    watch.EventType
	object  any // a *compacted of the feed
	version string
}

type events interface {
	next() (event, error)
	Close() error
}

// watcher is one open watch. A watcher closes its watch if nothing is received for watchSilence, or
// if the watch lasts longer than requested. Only the goroutine that opened a watcher may use it,
// but any goroutine may call stop.
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

// watcher.next waits for the next event. The time that the caller spends between events does not
// count toward watchSilence.
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

// broken reports whether a watch was interrupted without an error from the server. After such an
// interruption, a new watch can continue from the last version.
func broken(err error) bool {
	if errors.As(err, new(apierrors.APIStatus)) {
		return false // an error from the server, with any text
	}
	return err == io.EOF || err == errOverdue || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}

// lag measures the age of a resource's updates when they arrive. The age is the time since the
// newest update timestamp in the updated object's managedFields. These timestamps have a resolution
// of one second. A lag may be used only by the goroutine that executes Resource.run. A nil lag
// measures nothing.
//
// Some updates do not change the newest timestamp in managedFields. For example, an object that is
// marked for deletion keeps the timestamp of its last change, which may be long past. To detect
// every update that leaves the timestamp unchanged, Isthmus would have to store the timestamp of
// every object. The age of an update is not measured if Isthmus has already received another object
// of the same resource with a later timestamp. If several updates of a resource have the same
// timestamp, Isthmus measures only those updates that arrive within a second of the first one. If a
// timestamp first appeared in a listed or newly created object, updates with this timestamp are not
// measured. A user could write a future timestamp into an object. Future timestamps are replaced
// with the current time, because a future timestamp would otherwise prevent all measurements until
// that time.
type lag struct {
	seconds prometheus.Observer // fixed

	newest int64 // Unix time in seconds
	// The since field is the time at which the first update with the newest timestamp was received.
	// The field is zero if the newest timestamp came from a listed or newly created object.
	since time.Time
}

// updated returns the newest update time in an object's managedFields as a Unix time in seconds, or
// zero if there is none.
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

// lag.seen records the update timestamp of a listed or newly created object, but does not measure
// the age of the update.
func (l *lag) seen(updated int64) {
	if l != nil && updated > l.newest {
		l.newest = updated
		l.since = time.Time{}
	}
}

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
