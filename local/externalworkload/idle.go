package externalworkload

import (
	"context"
	"time"
)

// idleCheck is how often a term that follows Services looks whether anything needs that.
const idleCheck = time.Minute

// isIdle reports whether there are neither workloads nor slices of ours: then no Service
// needs a write, whatever it is like. Most clusters have none of either.
func (t *term) isIdle() bool {
	return len(t.workloads.GetIndexer().ListKeys()) == 0 && len(t.slices.GetIndexer().ListKeys()) == 0
}

// awaitObjects returns true once there is a workload or a slice of ours, or false when
// work ends.
func (t *term) awaitObjects(work context.Context) bool {
	if t.isIdle() {
		t.log.Info("there are no ExternalWorkloads and no EndpointSlices for any; Services are followed once there are")
		t.synced.Store(true)
	}
	for t.isIdle() {
		select {
		case <-work.Done():
			return false
		case <-t.arrived:
		}
	}
	t.synced.Store(false)
	return true
}

// arrive lets awaitObjects look again.
func (t *term) arrive() {
	select {
	case t.arrived <- struct{}{}:
	default:
	}
}

// awaitIdle returns when the term is idle at two checks in a row, or when work ends.
func (t *term) awaitIdle(work context.Context) {
	check := time.NewTicker(idleCheck)
	defer check.Stop()
	for was := false; ; {
		select {
		case <-work.Done():
			return
		case <-check.C:
		}
		is := t.isIdle()
		if was && is {
			return
		}
		was = is
	}
}
