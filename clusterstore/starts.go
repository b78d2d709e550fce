package clusterstore

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// maxStarts is how many clusters begin to be connected to and read at once. If
// hundreds are while the processors are busy, each takes so long that connections and lists time
// out and begin anew, and none becomes ready.
const maxStarts = 32

// A cluster that does not answer costs nothing, so it is not to hold up others: a turn lasts for
// so many steps at most. Each begins when the one before is noticed to be over, so that turns
// are longer where goroutines wait for a processor.
const (
	startSteps = 20
	startStep  = 50 * time.Millisecond
)

// starts has a turn for each of so many clusters.
type starts struct{ *semaphore.Weighted }

func newStarts() starts { return starts{semaphore.NewWeighted(maxStarts)} }

// take waits for a turn. It returns false if ctx ends first.
func (s starts) take(ctx context.Context) bool { return s.Acquire(ctx, 1) == nil }

// giveBack waits until the cluster has synced or does not work, its turn is over, or ctx ends,
// and gives the turn back.
func (s starts) giveBack(ctx context.Context, c Cluster, synced <-chan struct{}) {
	defer s.Release(1)
	step := time.NewTicker(startStep)
	defer step.Stop()
	for steps := 0; steps < startSteps; {
		changed := c.HealthChanged()
		if c.Health().Err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-synced:
			return
		case <-changed:
		case <-step.C:
			step.Reset(startStep)
			steps++
		}
	}
}
