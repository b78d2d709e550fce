package follow

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// If a Group has a memory cap, eventRate and eventBurst limit the rate at which the Group handles
// events. Handling an event takes about 20 µs of CPU time.
const (
	eventRate  = 10_000 // per second
	eventBurst = 20_000
)

// Options apply to all resources of a Group.
type Options struct {
	// Printable returns an error whose message is safe to display. The message of the original
	// error may contain text from the API server. If Printable is nil, errors are displayed
	// unchanged.
	Printable func(error) error
	// Trouble, if set, is called when unusual behavior of an API server makes Isthmus repeat
	// requests for a resource. Closing watches early is an example of such behavior. Trouble is
	// called once for each kind of unusual behavior, and again only if the behavior recurs after
	// several minutes. Several goroutines may call Trouble at the same time.
	Trouble func(resource, text string)
	// Contain, if set, must call the function that it receives, and recover from any panic in that
	// function. After a panic, Contain must call [Group.Fail].
	Contain func(resource string, follow func())
	// If the Admit channel is set, the first sync does not end before the channel is closed. See
	// [Group.Listed].
	Admit <-chan struct{}
	// Memory is the memory cap for cached and staged objects. If Memory is nil, neither the memory
	// nor the rate of events is limited.
	Memory *MemoryCap
}

// Group lists and watches several resources of one API. A Group reports the health of all its
// resources, and signals when the required ones have synced.
type Group struct {
	// fixed
	options   Options
	resources []*Resource
	listed    chan struct{} // closed once the first sync only waits for Options.Admit
	done      chan struct{} // closed once synced
	events    *rate.Limiter // shared by all watches; nil without a memory cap

	version   federation.Latest[struct{}]
	lastEvent atomic.Int64 // Unix time in nanoseconds

	mu     sync.Mutex
	synced bool // guarded by mu; the first sync is complete
	failed struct {
		err error     // guarded by mu; why the lists and watches have ended, or nil
		at  time.Time // guarded by mu; when they ended
	}
}

// The first sync also waits for optional resources, because a resource that has not been listed
// appears to be empty.
const (
	// optionalPatience limits how long the first sync waits for optional resources, measured from
	// the start of Run.
	optionalPatience = 25 * time.Second
	// optionalGrace is how long the first sync waits for optional resources after the required
	// resources have been listed. optionalGrace exceeds the longest pause after a failure.
	optionalGrace = 5 * time.Second
)

// NewGroup returns a Group of the given resources, which must not belong to another Group. NewGroup
// does not start any goroutines.
func NewGroup(o Options, resources ...*Resource) *Group {
	if o.Printable == nil {
		o.Printable = func(err error) error { return err }
	}
	if o.Contain == nil {
		o.Contain = func(_ string, follow func()) { follow() }
	}
	g := &Group{options: o, resources: resources, listed: make(chan struct{}), done: make(chan struct{})}
	if o.Memory != nil {
		g.events = rate.NewLimiter(eventRate, eventBurst)
	}
	for _, r := range resources {
		r.group = g
		r.feed.useMemoryCap()
	}
	return g
}

// Run lists and watches the resources until ctx is done, and returns once all its goroutines have
// ended. After the first sync, Run calls the synced function, unless it is nil. Run then closes the
// channel that [Group.Synced] returns. Run must be called only once.
func (g *Group) Run(ctx context.Context, synced func()) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, r := range g.resources {
		all.Go(func() { g.options.Contain(r.name, func() { r.run(ctx) }) })
	}
	if !g.firstSync(ctx) {
		return
	}
	close(g.listed)
	if !g.admitted(ctx) {
		return
	}
	if synced != nil {
		synced()
	}
	g.setSynced()
	close(g.done)
}

// firstSync waits until all required resources have been listed, and then waits for optional
// resources, but no longer than optionalPatience and optionalGrace permit. If ctx is done before
// the wait ends, firstSync returns false.
func (g *Group) firstSync(ctx context.Context) bool {
	began := time.Now()
	for _, r := range g.resources {
		if !r.needed {
			continue
		}
		select {
		case <-r.tried:
		case <-ctx.Done():
			return false
		}
	}
	patience, stop := context.WithTimeout(ctx, max(optionalGrace, optionalPatience-time.Since(began)))
	defer stop()
	for _, r := range g.resources {
		if r.later {
			continue
		}
		select {
		case <-r.tried:
		case <-patience.Done():
			g.setLate(&r.state)
		}
	}
	return ctx.Err() == nil
}

func (g *Group) admitted(ctx context.Context) bool {
	if g.options.Admit == nil {
		return true
	}
	select {
	case <-g.options.Admit:
		return true
	case <-ctx.Done():
		return false
	}
}

// Listed returns a channel that is closed as soon as the first sync has nothing left to wait for
// except [Options].Admit. While the Group waits for [Options].Admit, it continues to retry optional
// resources that it could not list.
func (g *Group) Listed() <-chan struct{} { return g.listed }

// Synced returns a channel that is closed after the first sync. After the first sync, the Stores
// contain all objects of the required resources, and of the optional resources that could be listed
// in time.
func (g *Group) Synced() <-chan struct{} { return g.done }

// HealthChanged returns a channel that is closed when Health.Err or Health.StaleSince changes, or
// when the Synced or Failure field of an element of Health.Resources changes. To avoid missing a
// change, get the channel before you call Health.
func (g *Group) HealthChanged() <-chan struct{} {
	_, changed := g.version.Get()
	return changed
}

// The update method holds g.mu while it calls the change function. If the change function returns
// true, update closes the channel that [Group.HealthChanged] returned.
func (g *Group) update(change func() (report bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if change() {
		g.version.Set(struct{}{})
	}
}

func (g *Group) setSynced() {
	g.update(func() bool { g.synced = true; return true })
}

func (g *Group) setFailed(s *resourceState, err error) {
	over := isOver(err)
	notThere := apierrors.IsNotFound(err)
	failure := classOf(err)
	err = g.options.Printable(err)
	now := time.Now()
	g.update(func() bool {
		before := *s
		if s.failure != adminapi.Absent || !notThere { // Absent lasts until API discovery finds the resource
			s.classify(failure, now)
		}
		if s.err == nil {
			s.since = now
		}
		if !over {
			s.over = time.Time{}
		} else if s.over.IsZero() {
			s.over = now
		}
		s.err = err
		s.lastSeen = now
		return before.err == nil || before.err.Error() != err.Error() || before.failure != s.failure
	})
}

func (g *Group) setAbsent(s *resourceState, absent bool) {
	failure := adminapi.Failing
	if absent {
		failure = adminapi.Absent
	}
	g.update(func() bool {
		before := s.failure
		s.classify(failure, time.Now())
		return s.failure != before
	})
}

// setLate keeps any error that is already recorded for the resource, because that error is more
// specific than errLate.
func (g *Group) setLate(s *resourceState) {
	g.update(func() bool {
		if s.synced || s.err != nil {
			return false
		}
		now := time.Now()
		s.classify(adminapi.Failing, now)
		s.err = errLate
		s.since = now
		s.lastSeen = now
		return true
	})
}

func (g *Group) setThrottled(s *resourceState, until time.Time) {
	g.update(func() bool {
		s.throttled = until
		return false
	})
}

// setListed does not clear the resource's error, because a successful list does not show that the
// resource can also be watched.
func (g *Group) setListed(s *resourceState) {
	g.event()
	g.update(func() bool {
		before := s.synced
		s.synced = true
		return !before
	})
}

func (g *Group) setHealthy(s *resourceState) {
	g.event()
	g.update(func() bool {
		before := *s
		*s = resourceState{synced: true}
		return before.err != nil || !before.synced
	})
}

// Fail marks the Group as permanently stale, because its lists and watches have ended. If Fail is
// called several times, only the first error is recorded.
func (g *Group) Fail(err error) {
	g.update(func() bool {
		if g.failed.err != nil {
			return false
		}
		g.failed.err = err
		g.failed.at = time.Now()
		return true
	})
}

// The event method records when a list, an event or a bookmark was last received.
func (g *Group) event() { g.lastEvent.Store(time.Now().UnixNano()) }

// Reads reports whether a resource has been listed, and returns the error, if any, that currently
// prevents Isthmus from reading the resource. For an unknown resource, Reads returns false and nil.
func (g *Group) Reads(name string) (listed bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.resources {
		if r.name == name {
			return r.state.synced, r.state.err
		}
	}
	return false, nil
}

// Health returns the current health of all resources.
func (g *Group) Health() Health {
	var all Health
	if ns := g.lastEvent.Load(); ns != 0 {
		all.LastEvent = time.Unix(0, ns)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var newest time.Time
	for _, r := range g.resources {
		s := r.state
		one := adminapi.Resource{
			Resource: r.name, Needed: r.needed, Synced: s.synced, Objects: int(r.objects.Load()),
			Trouble: r.trouble.now(),
		}
		one.Failure = s.failure
		one.Lasts = s.lasts
		n, some := r.refusedObjects()
		one.Refused, all.Refused = n, append(all.Refused, some...)
		if s.err != nil {
			one.Err = s.err.Error()
		}
		if time.Now().Before(s.throttled) {
			one.ThrottledUntil = s.throttled
		}
		all.Resources = append(all.Resources, one)
		lost := s.since
		if !r.needed {
			lost = s.over
		}
		if s.err == nil || lost.IsZero() || r.aside {
			continue
		}
		if s.lastSeen.After(newest) {
			newest = s.lastSeen
			all.Err = fmt.Errorf("%s: %w", r.name, s.err)
		}
		if (g.synced || !s.over.IsZero()) && (all.StaleSince.IsZero() || lost.Before(all.StaleSince)) {
			all.StaleSince = lost
		}
	}
	if g.failed.err != nil {
		all.Failed = true
		all.Err = g.failed.err
		if all.StaleSince.IsZero() {
			all.StaleSince = g.failed.at
		}
	}
	return all
}
