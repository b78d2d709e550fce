package federation

import (
	"slices"
	"sync"
	"time"
)

// schedule has the watched services that change by themselves, and when to look at them next. There are
// few: those whose clients are about to return, or of which a cordon takes endpoints out step by step.
type schedule struct {
	mu   sync.Mutex // a leaf in the lock order
	due  map[*watchedService]time.Time
	next Latest[time.Time] // the earliest of due, or earlier: of a service that has changed since; zero: there is none
}

// set sets when a service is due; zero: not. It takes as long however many there are: that nothing is due
// at next any more is found out then.
func (c *schedule) set(s *watchedService, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.IsZero() {
		delete(c.due, s)
	} else {
		c.due[s] = at
	}
	switch next, _ := c.next.Get(); {
	case len(c.due) == 0:
		c.setNext(time.Time{})
	case !at.IsZero() && (next.IsZero() || at.Before(next)):
		c.setNext(at)
	}
}

// takeDue removes and returns the services that are due, by name.
func (c *schedule) takeDue(now time.Time) (list []*watchedService) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next time.Time
	for s, at := range c.due {
		switch {
		case !at.After(now):
			list = append(list, s)
			delete(c.due, s)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	c.setNext(next)
	slices.SortFunc(list, func(a, b *watchedService) int { return a.id.compare(b.id) })
	return list
}

// setNext publishes when to look next, if that has changed. c.mu is held.
func (c *schedule) setNext(at time.Time) {
	if next, _ := c.next.Get(); !at.Equal(next) {
		c.next.Set(at)
	}
}

// Due returns when Tick is to be called next, and a channel that is closed once that
// is another time. Zero: there is no need to call it.
func (t *Table) Due() (time.Time, <-chan struct{}) { return t.schedule.next.Get() }

// Tick publishes what changes by the passing of time: endpoints that clients return
// from, or that a cordon takes out step by step.
func (t *Table) Tick() {
	due := t.schedule.takeDue(t.opts.Now())
	mixNamespaces(due)
	for _, s := range due {
		t.update(s, s.tick)
	}
}
