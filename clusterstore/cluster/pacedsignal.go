package cluster

import (
	"sync"
	"time"
)

// SignalPause is the least time between two changes that a [PacedSignal] passes on.
const SignalPause = time.Second

// PacedSignal passes on that something has changed: the first change at once, those of the
// following second together. It is for what concerns all services of a cluster, such as its region:
// whoever may label its Nodes must not keep the gateway busy with them.
type PacedSignal struct {
	C chan struct{} // gets something after a change; it has room for one

	mu      sync.Mutex
	next    time.Time // when the next change may be passed on
	pending bool      // one will be then
}

// NewPacedSignal returns a signal that one Cluster after the other may use.
func NewPacedSignal() *PacedSignal { return &PacedSignal{C: make(chan struct{}, 1)} }

// Changed notes a change. It does not block.
func (s *PacedSignal) Changed() {
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

func (s *PacedSignal) send() {
	select {
	case s.C <- struct{}{}:
	default:
	}
}
