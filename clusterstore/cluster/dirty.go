package cluster

import (
	"context"
	"sync"
	"time"
)

// dirty is a set of services, or topics, whose changes are to be reported. Bursts of
// events collapse in it.
type dirty[K comparable] struct {
	wake chan struct{} // holds one token while the set may have something

	mu  sync.Mutex
	set map[K]time.Time // under mu: when each was first added
}

func newDirty[K comparable]() *dirty[K] {
	return &dirty[K]{wake: make(chan struct{}, 1), set: make(map[K]time.Time)}
}

// add never blocks.
func (d *dirty[K]) add(key K, at time.Time) {
	d.mu.Lock()
	if _, ok := d.set[key]; !ok {
		d.set[key] = at
	}
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// take empties the set and returns what was in it; nil: nothing.
func (d *dirty[K]) take() map[K]time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.set) == 0 {
		return nil // not the empty set, which add goes on writing
	}
	set := d.set
	d.set = make(map[K]time.Time)
	return set
}

// run calls changed for each key that is added, one by one, until ctx ends.
func (d *dirty[K]) run(ctx context.Context, changed func(K, time.Time)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		}
		for key, at := range d.take() {
			if ctx.Err() != nil {
				return
			}
			changed(key, at)
		}
	}
}
