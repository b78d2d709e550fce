package follow

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"isthmus/federation"
)

// Limits of the events of a cluster with a budget, and of objects of lists, except first lists. Each takes some 20 µs of
// processor time.
const (
	eventRate  = 10_000 // a second
	eventBurst = 20_000
)

// Options are for all resources of a Group, which are of one API.
type Options struct {
	// Printable cleans an error that is shown in the health, since its text may
	// come from the API server. nil: errors are shown as they are.
	Printable func(error) error
	// Trouble, if set, is called when an API server makes a resource send requests
	// again and again though it answers them, once for each cause until that has not
	// happened for some minutes. It may be called by several goroutines.
	Trouble func(resource, text string)
	// Contain, if set, runs what follows a resource, and recovers from its panics. It calls Fail then.
	Contain func(resource string, follow func())
	// Admit, if set, delays the end of the first sync until it is closed: see [Group.Listed].
	Admit <-chan struct{}
	// Budget bounds the memory of what is cached and staged. If it is nil, there is no bound, and events
	// are handled as fast as they come.
	Budget *MemoryCap
}

// Group follows resources of one API together. It knows when all needed ones have
// synced, and the health of all.
type Group struct {
	// fixed
	options   Options
	resources []*Resource
	listed    chan struct{} // closed once the first sync only waits for Options.Admit
	done      chan struct{} // closed once synced
	events    *rate.Limiter // of all watches; nil: without a budget

	version   federation.Latest[struct{}]
	lastEvent atomic.Int64 // unix nanoseconds

	mu     sync.Mutex
	synced bool // under mu: the first sync is over
	failed struct {
		err error     // under mu: why the resources are no longer followed; nil while they are
		at  time.Time // under mu: since when they are not
	}
}

// The first sync waits for optional resources, because a resource that is not listed yet looks as if it had no objects.
const (
	// optionalPatience is how long after Run the first sync waits for optional resources.
	optionalPatience = 25 * time.Second
	// optionalGrace is how long the first sync waits for optional resources after the needed ones, if listing these has
	// taken nearly all of optionalPatience or more. It is longer than the longest pause after a failure.
	optionalGrace = 5 * time.Second
)

// NewGroup returns a Group of these resources, which must not be in another Group. It
// starts nothing.
func NewGroup(o Options, resources ...*Resource) *Group {
	if o.Printable == nil {
		o.Printable = func(err error) error { return err }
	}
	if o.Contain == nil {
		o.Contain = func(_ string, follow func()) { follow() }
	}
	g := &Group{options: o, resources: resources, listed: make(chan struct{}), done: make(chan struct{})}
	if o.Budget != nil {
		g.events = rate.NewLimiter(eventRate, eventBurst)
	}
	for _, r := range resources {
		r.group = g
		r.feed.useBudget()
	}
	return g
}

// Run follows the resources until ctx ends, and returns once all its goroutines
// have ended. It calls synced, if set, after the first sync and before Synced is
// closed. Call it once.
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

// firstSync waits until all needed resources are listed. It also waits for each optional resource until that is
// listed, refused, absent or over budget, but not longer than optionalPatience and optionalGrace allow. It returns
// false if ctx ends before.
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

// admitted waits for Options.Admit. It returns false if ctx ends before.
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

// Listed returns a channel that is closed once the first sync waits for nothing but [Options].Admit. Whoever closes
// that can let the Group list more optional resources before, so that their objects are complete when the Group has
// synced.
func (g *Group) Listed() <-chan struct{} { return g.listed }

// Synced returns a channel that is closed once all objects of needed resources are in
// their Stores. Those of optional ones are too, if the API lets them be listed in
// time.
func (g *Group) Synced() <-chan struct{} { return g.done }

// HealthChanged returns a channel that is closed at the next change of Health's
// Err or StaleSince, or of a Resource's Synced or Failure. Get it before you call Health.
func (g *Group) HealthChanged() <-chan struct{} {
	_, changed := g.version.Get()
	return changed
}
