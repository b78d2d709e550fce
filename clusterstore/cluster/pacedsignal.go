package cluster

import (
	"sync"
	"time"
)

// RegionPause is how far apart a [RegionSignal] passes on changes at least.
const RegionPause = time.Second

// RegionSignal passes on that a cluster's region has changed: the first change at once,
// those of the following second together. A region concerns all services of a cluster,
// and whoever may label its Nodes must not keep the gateway busy with them.
type RegionSignal struct {
	C chan struct{} // gets something after a change; it has room for one

	mu      sync.Mutex
	next    time.Time // when the next change may be passed on
	pending bool      // one will be then
}

// NewRegionSignal returns a signal for one Cluster after the other.
func NewRegionSignal() *RegionSignal { return &RegionSignal{C: make(chan struct{}, 1)} }

// Changed is for Config.RegionChanged. It does not block.
func (s *RegionSignal) Changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending {
		return
	}
	wait := max(0, time.Until(s.next))
	s.next = time.Now().Add(wait + RegionPause)
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

func (s *RegionSignal) send() {
	select {
	case s.C <- struct{}{}:
	default:
	}
}
