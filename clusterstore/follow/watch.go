package follow

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

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
