package clusterstore

import (
	"context"
	"fmt"
	"sync"
	"time"

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

// runningCluster is a Cluster made from one version of credentials. It runs from
// start to stop.
type runningCluster struct {
	cluster       Cluster
	creds         *credentials
	waits         bool            // problem has seen that it has not had its turn
	deadline      time.Time       // when it should have synced; zero: not known before its turn
	overdue       bool            // problem has seen that the deadline is over
	healthChanged <-chan struct{} // closed when the health changes that health returned last
	started       time.Time       // when start was called
	broken        bool            // health has seen that a panic has ended its lists and watches
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

// health returns the cluster's health, and sets healthChanged to the channel that its
// next change closes.
func (r *runningCluster) health() cluster.Health {
	r.healthChanged = r.cluster.HealthChanged()
	h := r.cluster.Health()
	r.broken = r.broken || h.Failed
	h.Err = r.creds.explain(h.Err)
	return h
}

// problem returns why a cluster that has not synced does not work: a request failed, it waits for kinds of objects, or
// it takes too long; nil: nothing is known to be wrong. h is its health.
func (r *runningCluster) problem(h cluster.Health) error {
	r.overdue = r.late()
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

// late returns whether the deadline is over, which counts from the cluster's turn on.
func (r *runningCluster) late() bool {
	r.waits = !closed(r.began)
	if r.deadline.IsZero() && !r.waits && r.creds.rest != nil { // the own cluster has as long as it takes
		r.deadline = time.Now().Add(syncGrace)
	}
	return !r.deadline.IsZero() && !time.Now().Before(r.deadline)
}

// failedCluster takes the place of a Cluster that could not be made.
type failedCluster struct{ err error }

func (f failedCluster) Run(ctx context.Context) { <-ctx.Done() }
func (f failedCluster) Listed() <-chan struct{} { return nil }
func (f failedCluster) Synced() <-chan struct{} { return nil }
func (f failedCluster) Health() cluster.Health {
	return cluster.Health{Health: follow.Health{Err: f.err}, API: adminapi.APIServer{Error: f.err.Error()}}
}
func (f failedCluster) HealthChanged() <-chan struct{}      { return nil }
func (f failedCluster) Region() (string, bool)              { return "", false }
func (f failedCluster) Gateways() ([]*cluster.Gateway, int) { return nil, 0 }
func (f failedCluster) Exports() *cluster.Exports           { return nil }
func (f failedCluster) SelectorsChanged()                   {}
func (f failedCluster) Look() <-chan struct{}               { return nil }

func (f failedCluster) State(federation.ServiceID) federation.ServiceState { return federation.Missing }
func (f failedCluster) Declares(federation.ServiceID, uint16) bool         { return false }
func (f failedCluster) Reader(federation.ServiceID, uint16) federation.Reader {
	return nil // never called: it does not sync, so the table does not get it
}
