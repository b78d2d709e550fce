package pace

import (
	"context"
	"sync"
	"time"
)

const SignalPause = time.Second

// Signal reports changes at most once per [SignalPause]. The first change is reported immediately,
// and all changes during the following pause are reported as one. A Signal is meant for changes
// that affect all services of a cluster, such as a new region. If every change were reported
// separately, a user with permission to label a cluster's Nodes could keep Isthmus busy.
type Signal struct {
	C chan struct{} // receives a value after a change; its capacity is one

	mu      sync.Mutex
	next    time.Time // the earliest time of the next send
	pending bool      // a send is scheduled for next
}

// NewSignal returns a Signal. A Signal may be shared by a Cluster and its replacement.
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

// Sleep waits until the given time has passed, or returns false if ctx is done first.
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
