package clusterstore

import (
	"context"
	"sync"
	"time"

	"isthmus/federation"
)

// dirty is a set of services to read again. Bursts of events collapse in it.
type dirty struct {
	wake chan struct{} // holds one token while the set may have something

	mu  sync.Mutex
	set map[federation.ServiceID]time.Time // under mu: since when
}

func newDirty() *dirty {
	return &dirty{wake: make(chan struct{}, 1), set: make(map[federation.ServiceID]time.Time)}
}

// add never blocks.
func (d *dirty) add(id federation.ServiceID, at time.Time) {
	d.mu.Lock()
	if _, ok := d.set[id]; !ok {
		d.set[id] = at
	}
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// take empties the set, and returns what was in it: nil if nothing was.
func (d *dirty) take() map[federation.ServiceID]time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.set) == 0 {
		return nil // not the set itself, which is written on
	}
	set := d.set
	d.set = make(map[federation.ServiceID]time.Time)
	return set
}

// run hands on, one by one, what is added, until ctx ends.
func (d *dirty) run(ctx context.Context, changed func(federation.ServiceID, time.Time)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		}
		for id, at := range d.take() {
			if ctx.Err() != nil {
				return
			}
			changed(id, at)
		}
	}
}
