package clusterstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// Cluster is the part of a [cluster.Cluster] that a link uses.
type Cluster interface {
	federation.Source
	Run(context.Context)
	Listed() <-chan struct{} // closed once Synced only waits for Config.Admit
	Synced() <-chan struct{}
	Health() cluster.Health
	HealthChanged() <-chan struct{}
	Region() (region string, known bool)
	Gateways() (list []*cluster.Gateway, more int)
	Exports() *cluster.CachedExports // nil if exports are unknown or not cached
	RelistServices()                 // only called if exports are cached
	Copy(limit int) (map[string][]byte, error)
	Look() <-chan struct{}
}

// syncGrace is the time after which a new link that has not synced counts as unreachable.
const syncGrace = 30 * time.Second

// runningCluster is a Cluster that runs with one version of its credentials.
type runningCluster struct {
	cluster       Cluster
	creds         *credentials
	waits         bool            // set by noteProgress: the cluster is waiting for its turn to start
	deadline      time.Time       // when the cluster must have synced; zero before its turn
	overdue       bool            // set by noteProgress: the deadline has passed
	healthChanged <-chan struct{} // closed when the health changes after the last call to noteHealth
	started       time.Time
	broken        bool          // set by noteHealth: a panic stopped the cluster's lists and watches
	replaceAt     time.Time     // when to replace a broken cluster; otherwise zero
	admit         chan struct{} // closed once the cluster may complete its first sync
	awaits        []awaitedKind // kinds of objects that a successor must list first
	betterSince   time.Time     // set by noteAdvantage for a successor; zero unless the successor is healthier
	// failed is the reason why a successor cannot replace the serving cluster, or nil.
	failed error

	cancel context.CancelFunc
	began  chan struct{} // closed when the cluster's turn to start begins
	done   chan struct{}
}

// noteAdvantage records when the successor became healthier than the serving cluster. The successor
// is healthier if it watches all required kinds of objects while the serving cluster is stale or
// uses credentials that the API server rejects. The recorded time is the time of the first call
// that finds the successor to be healthier, not the time when the serving cluster became stale.
// After a long outage of the API server, a successor may resume its watches only moments before the
// serving cluster does. If noteAdvantage recorded the start of the outage, the successor would seem
// to have been healthier for the whole outage.
func (r *runningCluster) noteAdvantage(serving, next cluster.Health) {
	switch {
	case serving.StaleSince.IsZero() && !revoked(serving), !watchesNeeded(next):
		r.betterSince = time.Time{}
	case r.betterSince.IsZero():
		r.betterSince = time.Now()
	}
}

func (r *runningCluster) isBetter(d time.Duration) bool {
	return !r.betterSince.IsZero() && time.Since(r.betterSince) >= d
}

func (r *runningCluster) start(ctx context.Context, turns starts) {
	ctx, r.cancel = context.WithCancel(ctx)
	r.started = time.Now()
	r.began = make(chan struct{})
	r.done = make(chan struct{})
	synced := r.cluster.Synced()
	go func() {
		defer close(r.done)
		var turn sync.WaitGroup
		defer turn.Wait()
		if turns.take(ctx) { // without a turn, ctx is done, and Run only cleans up
			close(r.began)
			turn.Go(func() { turns.giveBack(ctx, r.cluster, synced) })
		}
		r.cluster.Run(ctx)
	}()
}

// The stop method returns after all goroutines of the cluster have stopped. The receiver may be
// nil.
func (r *runningCluster) stop() {
	if r != nil {
		r.cancel()
		<-r.done
	}
}

// noteHealth returns the health of the cluster, and records whether a panic has stopped its lists
// and watches. noteHealth also sets healthChanged to a channel that is closed when the health
// changes again.
func (r *runningCluster) noteHealth() cluster.Health {
	r.healthChanged = r.cluster.HealthChanged()
	h := r.cluster.Health()
	r.broken = r.broken || h.Failed
	h.Err = r.creds.explain(h.Err)
	return h
}

// noteProgress records whether the cluster is waiting for its turn, and whether its deadline has
// passed. A cluster must sync within syncGrace after its turn begins. The local cluster has no
// deadline.
func (r *runningCluster) noteProgress() {
	r.waits = !closed(r.began)
	if r.deadline.IsZero() && !r.waits && r.creds.rest != nil {
		r.deadline = time.Now().Add(syncGrace)
	}
	r.overdue = !r.deadline.IsZero() && !time.Now().Before(r.deadline)
}

// problem returns the reason why a cluster has not synced, as of the last call to noteProgress. If
// no reason is known, the result is nil.
func (r *runningCluster) problem(h cluster.Health) error {
	switch {
	case len(r.awaits) > 0:
		return awaitedError(r.awaits)
	case h.Err != nil:
		return h.Err
	case r.overdue:
		return fmt.Errorf("not synced within %v", syncGrace)
	}
	return nil
}

// failedCluster is a placeholder for a Cluster that could not be created.
type failedCluster struct{ err error }

func (f failedCluster) Run(ctx context.Context) { <-ctx.Done() }

func (f failedCluster) Listed() <-chan struct{} { return nil }

func (f failedCluster) Synced() <-chan struct{} { return nil }

func (f failedCluster) Health() cluster.Health {
	return cluster.Health{Health: follow.Health{Err: f.err}, API: adminapi.APIServer{Error: f.err.Error()}}
}

func (f failedCluster) HealthChanged() <-chan struct{} { return nil }

func (f failedCluster) Region() (string, bool) { return "", false }

func (f failedCluster) Gateways() ([]*cluster.Gateway, int) { return nil, 0 }

func (f failedCluster) Exports() *cluster.CachedExports { return nil }

func (f failedCluster) RelistServices() {}

func (f failedCluster) Copy(int) (map[string][]byte, error) { return nil, f.err }

func (f failedCluster) Look() <-chan struct{} { return nil }

func (f failedCluster) State(federation.ServiceID) federation.ServiceState { return federation.Missing }

func (f failedCluster) Declares(federation.ServiceID, uint16) bool { return false }

func (f failedCluster) Reader(federation.ServiceID, uint16) federation.Reader {
	return nil // never called, because a failedCluster never syncs and therefore is never added to the table
}

// Isthmus opens the first connections and requests the first lists for at most maxStarts clusters
// at the same time. Without this limit, connections to hundreds of clusters would compete for CPU
// time, and would time out so often that no cluster would become ready.
const maxStarts = 32

// A turn has at most startSteps steps, each of length startStep, so that an unresponsive cluster
// does not delay other clusters. No step of a turn begins until the goroutine has noticed the end
// of the previous step. If the CPUs are busy, the goroutine notices the end of each step late, so
// the whole turn takes longer.
const (
	startSteps = 20
	startStep  = 50 * time.Millisecond
)

type starts struct{ *semaphore.Weighted }

func newStarts(limit int64) starts { return starts{semaphore.NewWeighted(limit)} }

// The take method waits for a turn. If ctx is done before the turn begins, the result is false.
func (s starts) take(ctx context.Context) bool { return s.Acquire(ctx, 1) == nil }

// giveBack ends the turn of a cluster when the cluster has synced, when it has failed, when the
// turn has reached its maximum duration, or when ctx is done.
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
