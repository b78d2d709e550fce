package clusterstore

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// linkedCluster is what a link needs of a [cluster.Cluster]. Tests have their own.
type linkedCluster interface {
	federation.Source
	Run(context.Context) error
	Synced() <-chan struct{}
	Health() cluster.Health
	HealthChanged() <-chan struct{}
	Region() string
	Gateways() (list []*cluster.Gateway, more int)
}

// runningCluster is a Cluster made from one version of credentials. It runs from
// start to stop.
type runningCluster struct {
	cluster       linkedCluster
	creds         *credentials
	grace         time.Duration
	deadline      time.Time       // when it should have synced
	overdue       bool            // problem has seen that the deadline is over
	healthChanged <-chan struct{} // closed when the health changes that health returned last
	failed        bool            // logged as not working

	cancel context.CancelFunc
	done   chan struct{}
}

func (r *runningCluster) start(ctx context.Context, log *zap.Logger) {
	ctx, r.cancel = context.WithCancel(ctx)
	r.done = make(chan struct{})
	go func() {
		defer close(r.done)
		if err := r.cluster.Run(ctx); err != nil && ctx.Err() == nil {
			log.Error("cluster ended by itself", zap.Error(err))
		}
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
	return r.cluster.Health()
}

// problem returns why a cluster that has not synced does not work: a request failed,
// or it takes too long; nil: nothing is known to be wrong.
func (r *runningCluster) problem() error {
	h := r.health()
	r.overdue = !time.Now().Before(r.deadline)
	switch {
	case h.Err != nil:
		return h.Err
	case r.overdue:
		return fmt.Errorf("not synced within %v", r.grace)
	}
	return nil
}

// failedCluster takes the place of a Cluster that could not be made.
type failedCluster struct{ err error }

func (f failedCluster) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (f failedCluster) Synced() <-chan struct{}       { return nil }
func (f failedCluster) Health() cluster.Health {
	return cluster.Health{Health: follow.Health{Err: f.err}}
}
func (f failedCluster) HealthChanged() <-chan struct{}      { return nil }
func (f failedCluster) Region() string                      { return "" }
func (f failedCluster) Gateways() ([]*cluster.Gateway, int) { return nil, 0 }

func (f failedCluster) State(federation.ServiceID) federation.ServiceState { return federation.Missing }
func (f failedCluster) Reader(federation.ServiceID, uint16) federation.Reader {
	return nil // never called: it does not sync, so the table does not get it
}
