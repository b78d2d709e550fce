package cluster

import (
	"context"
	"errors"
	"sync"
)

// looks are the Looks of a Cluster that are under way. They end with its Run.
type looks struct {
	mu       sync.Mutex
	run      context.Context // of Run; nil: it does not run
	underWay sync.WaitGroup  // is added to under mu, while run is set
}

func (l *looks) open(run context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run = run
}

// close waits until all have ended. The context of open has.
func (l *looks) close() {
	l.mu.Lock()
	l.run = nil
	l.mu.Unlock()
	l.underWay.Wait()
}

// begin returns a context that ends with Run too. The caller calls done.
func (l *looks) begin(ctx context.Context) (_ context.Context, done func(), _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run == nil {
		return nil, nil, errNotRunning
	}
	l.underWay.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.run, cancel)
	return ctx, func() { stop(); cancel(); l.underWay.Done() }, nil
}

var errNotRunning = errors.New("it is not followed")
