package federation

import (
	"container/heap"
	"sync"
	"time"
)

// schedule has the watched services that change by themselves, by the time when they do.
type schedule struct {
	mu    sync.Mutex // a leaf in the lock order
	queue queue
	first Latest[time.Time] // when the first of them is due; zero: none
}

// queue is a heap of services, the first due first.
type queue []*watchedService

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i+1, j+1
}

func (q *queue) Push(x any) {
	s := x.(*watchedService)
	*q = append(*q, s)
	s.place = len(*q)
}

func (q *queue) Pop() any {
	old := *q
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*q, s.place = old[:len(old)-1], 0
	return s
}

// set sets when a service is due; zero: not.
func (c *schedule) set(s *watchedService, due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.due.Equal(due) && (s.place > 0) == !due.IsZero() {
		return
	}
	s.due = due
	switch {
	case due.IsZero():
		heap.Remove(&c.queue, s.place-1)
	case s.place == 0:
		heap.Push(&c.queue, s)
	default:
		heap.Fix(&c.queue, s.place-1)
	}
	c.announce()
}

// takeDue removes and returns the services that are due.
func (c *schedule) takeDue(now time.Time) (list []*watchedService) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > 0 && !c.queue[0].due.After(now) {
		s := heap.Pop(&c.queue).(*watchedService)
		s.due = time.Time{}
		list = append(list, s)
	}
	c.announce()
	return list
}

// announce publishes when the first service is due, if that has changed.
func (c *schedule) announce() {
	var first time.Time
	if len(c.queue) > 0 {
		first = c.queue[0].due
	}
	if old, _ := c.first.Get(); !old.Equal(first) {
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
