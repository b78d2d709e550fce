package follow

import (
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

var (
	errSilentList  = fmt.Errorf("the API server began to stream a list and then sent nothing for %v", listSilence)
	errRelist      = apierrors.NewTimeoutError("the watch gives way to a new list", 0)
	errSilentWatch = apierrors.NewTimeoutError(fmt.Sprintf("neither an event nor a bookmark has come for %v", watchSilence), 0)
)

// guardedWatch is a watch that ends by itself when nothing comes any more, or when it
// lasts longer than requested. It is the reflector's, but for its goroutine.
type guardedWatch struct {
	from     watch.Interface // the server's
	resource *Resource
	began    time.Time
	overdue  *time.Timer
	result   chan watch.Event
	done     chan struct{} // closed by Stop
	stop     sync.Once

	// of its goroutine
	lists bool // the objects that it begins with have not all come
}

// guard starts the goroutine of a watch, which ends after Stop, or when the server ends
// the watch.
func (r *Resource) guard(from watch.Interface, o metav1.ListOptions) watch.Interface {
	limit := defaultWatchTime
	if o.TimeoutSeconds != nil {
		limit = time.Duration(*o.TimeoutSeconds) * time.Second
	}
	g := &guardedWatch{
		from: from, resource: r, began: time.Now(), lists: streamsList(o),
		overdue: time.NewTimer(limit + watchOverrun),
		result:  make(chan watch.Event), done: make(chan struct{}),
	}
	r.watches.Go(g.run)
	return g
}

// streamsList reports whether a watch begins with all objects.
func streamsList(o metav1.ListOptions) bool {
	return o.SendInitialEvents != nil && *o.SendInitialEvents
}

func (g *guardedWatch) ResultChan() <-chan watch.Event { return g.result }

func (g *guardedWatch) Stop() {
	g.stop.Do(func() { close(g.done); g.from.Stop() })
}

// run passes on what comes. Time counts only while it waits for the server.
func (g *guardedWatch) run() {
	defer close(g.result)
	defer g.Stop()
	defer g.overdue.Stop()
	silence := time.NewTimer(g.patience())
	defer silence.Stop()
	for {
		select {
		case e, ok := <-g.from.ResultChan():
			if !ok {
				g.ended()
				return
			}
			g.look(e)
			if !g.pace() || !g.send(e) || e.Type == watch.Error { // after that nothing comes
				return
			}
			silence.Reset(g.patience())
		case <-silence.C:
			g.endSilent()
			return
		case <-g.overdue.C:
			g.resource.note(overdueWatch, nil)
			return // the reflector goes on from the last version
		case <-g.relistAsked():
			g.giveWay()
			return
		case <-g.done:
			return
		}
	}
}

// relistAsked returns what has an element once a new list is asked for. A list that is under
// way may have begun before that, so it comes to its end first.
func (g *guardedWatch) relistAsked() <-chan struct{} {
	if g.lists {
		return nil
	}
	return g.resource.relist
}

// giveWay ends the watch so that the reflector lists again.
func (g *guardedWatch) giveWay() {
	g.resource.afresh.Store(true)
	if !g.send(watch.Event{Type: watch.Error, Object: &errRelist.ErrStatus}) {
		g.resource.Relist() // the watch was over: the next one gives way
	}
}

func (g *guardedWatch) patience() time.Duration {
	if g.lists {
		return listSilence
	}
	return watchSilence
}

// pace waits until the cluster may have one more event handled. What comes meanwhile waits in
// the connection, and so at the server. It returns false once the watch is stopped.
func (g *guardedWatch) pace() bool {
	all := g.resource.group.events
	if all == nil || g.lists {
		return true
	}
	wait := all.Reserve().Delay()
	if wait == 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-g.done:
		return false
	}
}

// send returns false once the watch is stopped.
func (g *guardedWatch) send(e watch.Event) bool {
	select {
	case g.result <- e:
		return true
	case <-g.done:
		return false
	}
}

// look notes what an event shows of the watch.
func (g *guardedWatch) look(e watch.Event) {
	switch e.Type {
	case watch.Error:
		if time.Since(g.began) < shortWatch && g.resource.over.now.Load() == nil { // or else it is the budget
			err := apierrors.FromObject(e.Object)
			if outdated(err) {
				g.resource.note(expiredAtOnce, nil)
			} else {
				g.resource.note(failsSoon, err)
			}
		}
	case watch.Bookmark:
		if o, err := meta.Accessor(e.Object); err == nil && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			g.lists = false
			return
		}
		g.resource.bookmarks.Store(true)
	}
}

// ended notes that the server has ended the watch without an error.
func (g *guardedWatch) ended() {
	select {
	case <-g.done: // the reflector has
		return
	default:
	}
	if time.Since(g.began) < shortWatch {
		g.resource.note(endedSoon, nil)
	}
}

// endSilent ends a watch by which nothing comes any more. A list that was not streamed
// to its end has failed. Otherwise the reflector lists again, which shows whether the
// server still answers, and what has been missed: a new watch could be as silent.
func (g *guardedWatch) endSilent() {
	r := g.resource
	if !g.lists {
		if r.bookmarks.Load() { // else nothing may have changed
			r.note(silentWatch, nil)
		}
		g.send(watch.Event{Type: watch.Error, Object: &errSilentWatch.ErrStatus})
		return
	}
	if !r.needed {
		r.markTried()
	}
	r.unreadable(errSilentList, errSilentList)
}
