package faults

import (
	"context"
	"testing"
	"time"
)

// fault describes how to cause and how to end a fault of a cluster.
type fault struct {
	name   string
	inject func(context.Context, *stage) error
	heal   func(context.Context, *stage) error // also undoes an incomplete inject

	state  string // expected state of the cluster during the fault; empty means any
	reason string // expected part of the reason in /debug/clusters

	verify func(context.Context, *stage) error // optional check after the fault, which is retried
}

// TestFaults plays faults of linked clusters in parallel. Each fault of an API server has its own
// API server meanwhile. The other faults affect the connection to a healthy API server. The fault
// deleted-unseen is N-04.
func TestFaults(t *testing.T) {
	inTurn(t)
	w := newWorld(t, nil, "east", "south")
	free := make(chan *site, len(w.more))
	for _, at := range w.more {
		free <- at
	}
	for _, f := range serverFaults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			at := <-free
			t.Cleanup(func() { free <- at }) // after the stage's cleanup
			f.play(t, w.newStage(t, f.name, at))
		})
	}
	for _, f := range connectionFaults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.play(t, w.newStage(t, f.name, w.north))
		})
	}
}

// TestOwnCluster plays faults of the local cluster one after the other. The endpoints of the local
// cluster and all links must be kept, and Isthmus must continue to watch linked clusters.
func TestOwnCluster(t *testing.T) {
	inTurn(t)
	w := newWorld(t, nil)
	for _, f := range ownFaults() {
		t.Run(f.name, func(t *testing.T) { f.play(t, w.newOwnStage(t, f.name)) })
	}
}

// play injects the fault, lets it last, heals it, and checks the results.
func (f fault) play(t *testing.T, s *stage) {
	ctx, healed := t.Context(), false
	t.Cleanup(func() {
		if !healed { // otherwise other tests would fail too
			must(t, f.heal(context.WithoutCancel(ctx), s))
		}
	})
	must(t, f.inject(ctx, s))
	f.last(t, s)
	must(t, f.heal(ctx, s))
	healed = true
	s.awaitState(t, s.cluster, "ready", recovery)
	s.churn.finish(s)
	s.converge()
	s.verify()
	if f.verify != nil {
		await(t, recovery, func() error { return f.verify(ctx, s) })
	}
}

func (f fault) last(t *testing.T, s *stage) {
	t.Helper()
	if f.state != "" {
		s.awaitState(t, s.cluster, f.state, notice)
	}
	s.late()
	if f.reason != "" {
		await(t, notice, func() error { return s.explains(t.Context(), f.reason) })
	}
	if s.cluster == "local" {
		await(t, notice, func() error { return s.shows(t.Context(), "isthmus_link_secrets_unreadable") })
	}
	select {
	case <-time.After(either(300*time.Millisecond, 20*time.Second)):
	case <-t.Context().Done():
	}
	if f.state != "" {
		s.awaitState(t, s.cluster, f.state, recovery)
	}
}
