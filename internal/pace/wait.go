package pace

import (
	"context"
	"sync"
	"time"
)

// SignalPause is the least time between two changes that a [Signal] passes on.
const SignalPause = time.Second

// Signal passes on that something has changed: the first change at once, those of the
// following second together. It is for what concerns all services of a cluster, such as its region:
// whoever may label its Nodes must not keep the gateway busy with them.
type Signal struct {
	C chan struct{} // gets something after a change; it has room for one

	mu      sync.Mutex
	next    time.Time // when the next change may be passed on
	pending bool      // one will be then
}

// NewSignal returns a signal that one Cluster after the other may use.
func NewSignal() *Signal { return &Signal{C: make(chan struct{}, 1)} }

// Changed notes a change. It does not block.
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

// Sleep waits for d or until ctx ends. It reports whether d has passed: false means that ctx ended first.
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
