package federation

import (
	"slices"
	"sync"
	"time"
)

// schedule has the watched services that change by themselves, and when the first of them does. There are
// few: those whose clients are about to return, or of which a cordon takes endpoints out step by step.
type schedule struct {
	mu    sync.Mutex // a leaf in the lock order
	due   map[*watchedService]time.Time
	first Latest[time.Time] // the earliest of due; zero: there is none
}

// set sets when a service is due; zero: not.
func (c *schedule) set(s *watchedService, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.due[s]
	if was.Equal(at) {
		return
	}
	if at.IsZero() {
		delete(c.due, s)
	} else {
		c.due[s] = at
	}
	switch first, _ := c.first.Get(); {
	case !at.IsZero() && (first.IsZero() || at.Before(first)):
		c.first.Set(at)
	case was.Equal(first):
		c.findFirst()
	}
}

// takeDue removes and returns the services that are due, by name.
func (c *schedule) takeDue(now time.Time) (list []*watchedService) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s, at := range c.due {
		if !at.After(now) {
			list = append(list, s)
			delete(c.due, s)
		}
	}
	c.findFirst()
	slices.SortFunc(list, func(a, b *watchedService) int { return a.id.compare(b.id) })
	return list
}

// findFirst finds out what is due first, since that may be later than before. Often as much is due at
// the same time.
func (c *schedule) findFirst() {
	old, _ := c.first.Get()
	var first time.Time
	for _, at := range c.due {
		if at.Equal(old) {
			return
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if !first.Equal(old) {
		c.first.Set(first)
	}
}

// Due returns when Tick has to be called next, and a channel that is closed once that
// is another time. Zero: there is no need to call it.
func (t *Table) Due() (time.Time, <-chan struct{}) { return t.schedule.first.Get() }

// Tick publishes what changes by the passing of time: endpoints that clients return
// from, or that a cordon takes out step by step.
func (t *Table) Tick() {
	due := t.schedule.takeDue(t.opts.Now())
	mixNamespaces(due)
	for _, s := range due {
		s.tick()
	}
}
