package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// listSilence is how long a list that is streamed may pause. The connection's
	// timeouts don't cover that: a load balancer in front of a server that hangs
	// may well answer pings.
	listSilence = 10 * time.Second
	// watchSilence is how long nothing may come by a watch, no event and no
	// bookmark. API servers send bookmarks once a minute (defaultBookmarkFrequency in
	// k8s.io/apiserver/pkg/storage/cacher).
	watchSilence = 100 * time.Second
	// watchTime is how long a watch lasts at least, unless the server ends it. It lasts up to twice as long: so
	// watches do not all end at a time.
	watchTime = 5 * time.Minute
	// watchOverrun is how much longer than its timeoutSeconds a watch may last.
	watchOverrun = 10 * time.Second
	// shortWatch is how long a watch lasts at least, unless something is wrong.
	shortWatch = 10 * time.Second
)

// Why a watch is ended from here.
var (
	errSilent  = errors.New("nothing has come")
	errOverdue = errors.New("the server does not end the watch")
	errAgain   = errors.New("the objects are to be listed anew")
)

var (
	errNoStream   = errors.New("lists are not streamed")
	errSilentList = fmt.Errorf("the API server began to stream a list and then sent nothing for %v", listSilence)
)

// event is one of a watch, compacted.
type event struct {
	kind    watch.EventType
	object  any // the feed's
	version string
	initial bool // a bookmark: the objects that the watch begins with have all come
}

// events are those of one watch, as the feed decodes them.
type events interface {
	next() (event, error)
	Close() error
}

// opened is a watch. It ends when nothing comes for too long, or when it lasts longer than requested. Only
// the goroutine that has opened it uses it.
type opened struct {
	from       events // the server's
	resource   *Resource
	began, end time.Time // end: when it is overdue
	lists      bool      // the objects that it begins with have not all come
	brought    bool      // something has come

	ctx   context.Context // ends with the watch; its cause is why it is ended from here
	stop  context.CancelCauseFunc
	timer *time.Timer // ends ctx
}

// open requests a watch from a version on, or one that begins with all objects there are now, once a request may be
// sent.
func (r *Resource) open(ctx context.Context, version string, lists bool) (*opened, error) {
	if err := r.admit(ctx); err != nil {
		return nil, err
	}
	lasts := int64((1 + rand.Float64()) * watchTime.Seconds())
	opts := metav1.ListOptions{ResourceVersion: version, FieldSelector: r.fields, AllowWatchBookmarks: true, TimeoutSeconds: &lasts}
	if lists {
		opts.SendInitialEvents, opts.ResourceVersionMatch = &lists, metav1.ResourceVersionMatchNotOlderThan
	}
	w := &opened{resource: r, began: time.Now(), lists: lists}
	w.end = w.began.Add(time.Duration(lasts)*time.Second + watchOverrun)
	w.ctx, w.stop = context.WithCancelCause(ctx)
	var err error
	if w.from, err = r.feed.open(w.ctx, opts); err != nil {
		w.stop(nil)
		return nil, err
	}
	w.timer = time.AfterFunc(w.patience(), w.expire)
	return w, nil
}

// expire ends the watch from here.
func (w *opened) expire() {
	if time.Now().Before(w.end) {
		w.stop(errSilent)
	} else {
		w.stop(errOverdue)
	}
}

func (w *opened) close() {
	w.stop(nil)
	w.timer.Stop()
	_ = w.from.Close()
}

// next waits for the next event. Time counts only while it waits.
func (w *opened) next() (event, error) {
	if !time.Now().Before(w.end) { // the timer might never fire if there is always something to read
		w.note(errOverdue)
		return event{}, errOverdue
	}
	w.timer.Reset(min(w.patience(), time.Until(w.end)))
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
	if e.initial {
		w.lists = false
	} else if e.kind == watch.Bookmark {
		w.resource.bookmarks = true
	}
	return e, nil
}

func (w *opened) patience() time.Duration {
	if w.lists {
		return listSilence
	}
	return watchSilence
}

// note shows what the end of a watch says of the server.
func (w *opened) note(err error) {
	r := w.resource
	switch {
	case err == errSilent:
		if !w.lists && r.bookmarks { // else nothing may have changed
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

// broken reports whether a watch is just over: a new one goes on where it has ended.
func broken(err error) bool {
	if errors.As(err, new(apierrors.APIStatus)) {
		return false // the server says why, whatever its words
	}
	return err == io.EOF || err == errOverdue || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}

// unlisted returns why a list that was streamed has not come to its end, or errNoStream.
func unlisted(err error) error {
	switch {
	case err == errSilent:
		return errSilentList
	case outdated(err), isOver(err), err == errLongList:
		return err
	}
	return errNoStream
}
