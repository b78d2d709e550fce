package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	// watchOverrun is how much longer than its timeoutSeconds a watch may last.
	watchOverrun = 10 * time.Second
	// defaultWatchTime is for watches without timeoutSeconds.
	defaultWatchTime = 10 * time.Minute
	// shortWatch is how long a watch lasts at least, unless something is wrong.
	shortWatch = 10 * time.Second
)

// Why a watch is ended from here.
var (
	errSilent  = errors.New("nothing has come")
	errOverdue = errors.New("the server does not end the watch")
	errStopped = errors.New("the watch is stopped")
)

var (
	errNoStream    = errors.New("lists are not streamed")
	errSilentList  = fmt.Errorf("the API server began to stream a list and then sent nothing for %v", listSilence)
	errSilentWatch = apierrors.NewTimeoutError(fmt.Sprintf("neither an event nor a bookmark has come for %v", watchSilence), 0)
)

// event is one of a watch, compacted.
type event struct {
	kind    watch.EventType
	object  runtime.Object // the feed's
	version string
	initial bool // a bookmark: the objects that the watch begins with have all come
}

// events are those of one watch, as the feed decodes them.
type events interface {
	next() (event, error)
	Close() error
}

// opened is a watch that ends by itself when nothing comes for too long, or when it lasts longer
// than requested. It is the decoder of a reflector's watch.
type opened struct {
	from             events // the server's
	resource         *Resource
	began            time.Time
	silence, overdue *time.Timer
	ctx              context.Context // ends with the watch; its cause is why it is ended from here
	stop             context.CancelCauseFunc

	// of the goroutine that calls next
	lists bool // the objects that it begins with have not all come
	ended bool
}

// watch continues with the watch that the list has begun, or starts one from the version of the
// list or of what came last.
func (r *Resource) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if r.over != nil {
		return nil, r.over // the objects are listed again after a pause
	}
	o := r.began
	if r.began = nil; o == nil {
		r.endWatch()
		if err := r.admit(ctx); err != nil {
			return nil, err
		}
		var err error
		if o, err = r.open(ctx, opts); err != nil {
			return nil, r.unwatched(ctx, err)
		}
		r.proven, r.outdated = true, 0
		r.readable(r.group.setHealthy)
	}
	r.watching = watch.NewStreamWatcherWithLogger(logr.Discard(), o, nil)
	return r.watching, nil
}

// unwatched returns what a reflector gets after a watch could not be started. If it saw that the
// server was unreachable it would, once that is back, just watch from the last version; but the
// server may have been restored from a backup, and its versions count from there: such a watch would
// miss changes. So it is to list again.
func (r *Resource) unwatched(ctx context.Context, err error) error {
	if outdated(err) {
		return r.startOver(ctx, err)
	}
	r.failed(ctx, err)
	if errors.As(err, new(apierrors.APIStatus)) {
		return err // an answer
	}
	err = errors.New(err.Error())
	r.lastErr = err
	return err
}

// open requests a watch.
func (r *Resource) open(ctx context.Context, opts metav1.ListOptions) (*opened, error) {
	opts.FieldSelector = r.fields
	ctx, stop := context.WithCancelCause(ctx)
	from, err := r.feed.open(ctx, opts)
	if err != nil {
		stop(nil)
		return nil, err
	}
	limit := defaultWatchTime
	if opts.TimeoutSeconds != nil {
		limit = time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	o := &opened{from: from, resource: r, began: time.Now(), ctx: ctx, stop: stop, lists: streamsList(opts)}
	o.silence = time.AfterFunc(o.patience(), func() { o.end(errSilent) })
	o.overdue = time.AfterFunc(limit+watchOverrun, func() { o.end(errOverdue) })
	return o, nil
}

// streamsList reports whether a watch begins with all objects.
func streamsList(o metav1.ListOptions) bool {
	return o.SendInitialEvents != nil && *o.SendInitialEvents
}

// endWatch ends the watches of before, and waits for the goroutine of the reflector's.
func (r *Resource) endWatch() {
	if r.began != nil {
		r.began.Close()
		r.began = nil
	}
	if r.watching != nil {
		r.watching.Stop()
		for range r.watching.ResultChan() {
		}
		r.watching = nil
	}
}

// end ends the watch from here.
func (o *opened) end(why error) {
	o.stop(why)
	_ = o.from.Close()
}

// Close ends the watch, and a next or Decode that waits.
func (o *opened) Close() {
	o.end(errStopped)
	o.silence.Stop()
	o.overdue.Stop()
}

// Decode returns the next event, when the cluster may have it handled.
func (o *opened) Decode() (watch.EventType, runtime.Object, error) {
	if o.ended {
		return "", nil, io.EOF
	}
	e, err := o.next()
	if err == nil && o.pace() {
		return e.kind, e.object, nil
	}
	o.ended = true
	if status := o.failure(err); status != nil {
		return watch.Error, status, nil
	}
	return "", nil, io.EOF
}

// next waits for the next event. Time counts only while it waits.
func (o *opened) next() (event, error) {
	o.silence.Reset(o.patience())
	e, err := o.from.next()
	o.silence.Stop()
	switch why := context.Cause(o.ctx); {
	case why == errStopped:
		return event{}, errStopped
	case err != nil:
		if why == errSilent || why == errOverdue {
			err = why
		}
		o.note(err)
		return event{}, err
	}
	if e.initial {
		o.lists = false
	} else if e.kind == watch.Bookmark {
		o.resource.bookmarks.Store(true)
	}
	return e, nil
}

func (o *opened) patience() time.Duration {
	if o.lists {
		return listSilence
	}
	return watchSilence
}

// pace waits until the cluster may have one more event handled. What comes meanwhile waits in
// the connection, and so at the server. It returns false once the watch is ended.
func (o *opened) pace() bool {
	all := o.resource.group.events
	return all == nil || all.Wait(o.ctx) == nil
}

// note shows what the end of a watch says of the server.
func (o *opened) note(err error) {
	r, soon := o.resource, time.Since(o.began) < shortWatch
	switch {
	case err == errSilent:
		if !o.lists && r.bookmarks.Load() { // else nothing may have changed
			r.note(silentWatch, nil)
		}
	case err == errOverdue:
		r.note(overdueWatch, nil)
	case !soon:
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
	return err == io.EOF || err == errOverdue || err == errStopped || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}

// failure returns the event by which a reflector lists again; nil: it watches on from the version
// that came last. A watch that has fallen silent gives way to a list, which shows whether the server
// still answers, and what has been missed: a new watch could be as silent.
func (o *opened) failure(err error) *metav1.Status {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil // it is stopped
	case err == errSilent:
		return &errSilentWatch.ErrStatus
	case errors.As(err, &status):
		s := status.Status()
		return &s
	case broken(err):
		return nil
	}
	return &apierrors.NewInternalError(err).ErrStatus
}

// unlisted returns why a list that was streamed has not come to its end, or errNoStream.
func (o *opened) unlisted(err error) error {
	switch {
	case err == errSilent:
		return errSilentList
	case outdated(err), isOver(err), err == errLongList:
		return err
	}
	return errNoStream
}
