package pace

import (
	"context"
	"sync"
	"time"
)

// SignalPause is the shortest time between two changes that a [Signal] passes on.
const SignalPause = time.Second

// Signal passes on that something has changed. It passes on the first change immediately, and
// combines the changes of the next second into one. Use it for changes that affect all services of
// a cluster, such as the region. Otherwise, whoever may label the cluster's Nodes could keep the
// replica busy.
type Signal struct {
	C chan struct{} // receives a value after a change; its capacity is one

	mu      sync.Mutex
	next    time.Time // the earliest time of the next send
	pending bool      // a send is scheduled for next
}

// NewSignal returns a Signal that consecutive Clusters may share.
func NewSignal() *Signal { return &Signal{C: make(chan struct{}, 1)} }

// Changed records a change. It does not block.
func (s *Signal) Changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending {
		return
	}
	wait := max(0, time.Until(s.next))
	s.next = time.Now().Add(wait + SignalPause)
	if wait == 0 {
		s.send()
		return
	}
	s.pending = true
	time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending = false
		s.send()
	})
}

func (s *Signal) send() {
	select {
	case s.C <- struct{}{}:
	default:
	}
}

// Sleep waits for d or until ctx ends. It returns true if d has passed, and false if ctx ended
// first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
