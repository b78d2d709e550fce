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

// follower is what a link needs of a Cluster.
type follower interface {
	federation.Source
	Run(context.Context) error
	Synced() <-chan struct{}
	Health() cluster.Health
	HealthChanged() <-chan struct{}
}

// attempt is one Cluster made from one version of credentials, running until it
// is stopped.
type attempt struct {
	cluster  follower
	creds    *credentials
	grace    time.Duration
	deadline time.Time       // when it should have synced
	changed  <-chan struct{} // closed when its health is not what look said any more
	failed   bool            // reported as not working

	cancel context.CancelFunc
	done   chan struct{}
}

// run starts the attempt's cluster.
func (a *attempt) run(ctx context.Context, log *zap.Logger) {
	ctx, a.cancel = context.WithCancel(ctx)
	a.done = make(chan struct{})
	go func() {
		defer close(a.done)
		if err := a.cluster.Run(ctx); err != nil && ctx.Err() == nil {
			log.Error("cluster ended by itself", zap.Error(err))
		}
	}()
}

// stop ends the attempt's cluster and waits for it. There may be no attempt.
func (a *attempt) stop() {
	if a != nil {
		a.cancel()
		<-a.done
	}
}

// look returns the cluster's health, and makes changed tell of the next change.
func (a *attempt) look() cluster.Health {
	a.changed = a.cluster.HealthChanged()
	return a.cluster.Health()
}

// problem says why an attempt that has not synced does not work: a request
// failed, or it takes too long.
func (a *attempt) problem() error {
	h := a.look()
	switch {
	case h.Err != nil:
		return h.Err
	case !time.Now().Before(a.deadline):
		return fmt.Errorf("not synced within %v", a.grace)
	}
	return nil
}

// unusable stands for a cluster that could not even be made.
type unusable struct{ err error }

func (u unusable) Run(ctx context.Context) error  { <-ctx.Done(); return nil }
func (u unusable) Synced() <-chan struct{}        { return nil }
func (u unusable) Health() cluster.Health         { return cluster.Health{Health: follow.Health{Err: u.err}} }
func (u unusable) HealthChanged() <-chan struct{} { return nil }

func (u unusable) State(federation.ServiceID) federation.ServiceState { return federation.Missing }
func (u unusable) Reader(federation.ServiceID, uint16) federation.Reader {
	return nil // never asked: it is never linked
}
