package follow

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"isthmus/federation"
)

// Options are what a Group's resources have in common: they are of one API.
type Options struct {
	// Printable makes an error fit to be shown: an API server may say what it
	// likes. nil: they are shown as they are.
	Printable   func(error) error
	NoWatchList bool // the API can't stream a list
}

// Group follows resources of one API together: it says when all that is needed
// has come, and how the API is doing.
type Group struct {
	// fixed
	options   Options
	resources []*Resource
	done      chan struct{} // closed once synced

	version   federation.Latest[struct{}]
	lastEvent atomic.Int64 // unix nanoseconds

	mu     sync.Mutex
	synced bool // under mu: the first sync is over
}

// optionalGrace is how long the first sync waits, once everything needed is
// there, for an answer about what is not.
const optionalGrace = 3 * time.Second

// NewGroup returns a Group of these resources, none of which is in another one. It
// starts nothing.
func NewGroup(o Options, resources ...*Resource) *Group {
	if o.Printable == nil {
		o.Printable = func(err error) error { return err }
	}
	g := &Group{options: o, resources: resources, done: make(chan struct{})}
	for _, r := range resources {
		r.group = g
	}
	return g
}

// Run follows the resources until ctx ends, and returns once all its goroutines
// have ended. It calls synced, if set, after the first sync and before Synced is
// closed. It is called once.
func (g *Group) Run(ctx context.Context, synced func()) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, r := range g.resources {
		all.Go(func() { r.run(ctx) })
	}
	if !g.firstSync(ctx) {
		return
	}
	if synced != nil {
		synced()
	}
	g.setSynced()
	close(g.done)
}

// firstSync waits until everything needed is listed, and what is not needed is
// listed or has failed once, or keeps the rest waiting. It says whether that
// came before the end of ctx.
func (g *Group) firstSync(ctx context.Context) bool {
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
	grace, stop := context.WithTimeout(ctx, optionalGrace)
	defer stop()
	for _, r := range g.resources {
		select {
		case <-r.tried:
		case <-grace.Done():
		}
	}
	return ctx.Err() == nil
}

// Synced returns a channel that is closed once everything needed has been listed
// and is in its Store. What is optional is in too if the API lets it be listed.
func (g *Group) Synced() <-chan struct{} { return g.done }

// HealthChanged returns a channel that is closed at the next change of Health's
// Err or Lost, or of what is synced. Take it before looking at Health.
func (g *Group) HealthChanged() <-chan struct{} {
	_, stale := g.version.Get()
	return stale
}
