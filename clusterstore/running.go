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

// Cluster is what a link needs of a [cluster.Cluster]. Tests have their own.
type Cluster interface {
	federation.Source
	Run(context.Context)
	Listed() <-chan struct{} // closed once Synced waits for nothing but Config.Admit
	Synced() <-chan struct{}
	Health() cluster.Health
	HealthChanged() <-chan struct{}
	Region() (region string, known bool)
	Gateways() (list []*cluster.Gateway, more int)
	Exports() *cluster.Exports // nil: they are not known, or not kept
	SelectorsChanged()         // if exports are kept
	// Look makes the cluster read facts again. The channel is closed once Health has them.
	Look() <-chan struct{}
}

// syncGrace is how long a new link may take to sync before it counts as
// unreachable.
const syncGrace = 30 * time.Second

// runningCluster is a Cluster made from one version of credentials. It runs from
// start to stop.
type runningCluster struct {
	cluster       Cluster
	creds         *credentials
	waits         bool            // set by noteProgress: the cluster has not had its turn
	deadline      time.Time       // when it should have synced; zero: not known before its turn
	overdue       bool            // set by noteProgress: the deadline is over
	healthChanged <-chan struct{} // closed when the health changes that noteHealth returned last
	started       time.Time       // when start was called
	broken        bool            // set by noteHealth: a panic has ended the cluster's lists and watches
	replaceAt     time.Time       // when a successor is started for that reason; zero if it is not broken
	admit         chan struct{}   // closed once it may finish its first sync
	awaits        []awaitedKind   // of a successor: what it has to list before
	betterSince   time.Time       // of a successor: set by noteAdvantage; zero: the serving cluster is as good
	// failed is why a successor can't replace the serving cluster. If nothing is known to be
	// wrong, failed is nil.
	failed error

	cancel context.CancelFunc
	began  chan struct{} // closed when it has its turn
	done   chan struct{}
}

// noteAdvantage records since when a successor has watched its needed kinds while the serving
// cluster has been stale, or while the serving cluster's credentials have been refused. The time
// since when the serving cluster has been stale is not enough: after a long outage of the API
// server, the successor may be the first of the two that watches again.
func (r *runningCluster) noteAdvantage(serving, next cluster.Health) {
	switch {
	case serving.StaleSince.IsZero() && !revoked(serving), !watchesNeeded(next):
		r.betterSince = time.Time{}
	case r.betterSince.IsZero():
		r.betterSince = time.Now()
	}
}

// isBetter reports whether the successor has had the advantage that noteAdvantage records for at least that long.
func (r *runningCluster) isBetter(d time.Duration) bool {
	return !r.betterSince.IsZero() && time.Since(r.betterSince) >= d
}

// start runs the cluster once it has its turn.
func (r *runningCluster) start(ctx context.Context, turns starts) {
	ctx, r.cancel = context.WithCancel(ctx)
	r.started = time.Now()
	r.began, r.done = make(chan struct{}), make(chan struct{})
	synced := r.cluster.Synced()
	go func() {
		defer close(r.done)
		var turn sync.WaitGroup
		defer turn.Wait()
		if turns.take(ctx) { // if not, Run only gives back what the cluster has
			close(r.began)
			turn.Go(func() { turns.giveBack(ctx, r.cluster, synced) })
		}
		r.cluster.Run(ctx)
	}()
}

// stop stops the cluster and waits until it has ended. r may be nil.
func (r *runningCluster) stop() {
	if r != nil {
		r.cancel()
		<-r.done
	}
}

// noteHealth returns the cluster's health. It sets healthChanged to the channel that the next change of the health
// closes, and records whether a panic has ended the lists and watches.
func (r *runningCluster) noteHealth() cluster.Health {
	r.healthChanged = r.cluster.HealthChanged()
	h := r.cluster.Health()
	r.broken = r.broken || h.Failed
	h.Err = r.creds.explain(h.Err)
	return h
}

// noteProgress records whether the cluster has had its turn and whether its deadline is over. The deadline counts from
// the turn on. The local cluster has no deadline.
func (r *runningCluster) noteProgress() {
	r.waits = !closed(r.began)
	if r.deadline.IsZero() && !r.waits && r.creds.rest != nil {
		r.deadline = time.Now().Add(syncGrace)
	}
	r.overdue = !r.deadline.IsZero() && !time.Now().Before(r.deadline)
}

// problem returns why a cluster that has not synced does not work, as of the last noteProgress: a request failed, the
// cluster waits for kinds of objects, or the deadline is over. If nothing is known to be wrong, problem returns nil.
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

// failedCluster takes the place of a Cluster that could not be made.
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

func (f failedCluster) Exports() *cluster.Exports { return nil }

func (f failedCluster) SelectorsChanged() {}

func (f failedCluster) Look() <-chan struct{} { return nil }

func (f failedCluster) State(federation.ServiceID) federation.ServiceState { return federation.Missing }

func (f failedCluster) Declares(federation.ServiceID, uint16) bool { return false }

func (f failedCluster) Reader(federation.ServiceID, uint16) federation.Reader {
	return nil // never called: it does not sync, so the table does not get it
}

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
