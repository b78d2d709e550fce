package faults

import (
	"context"
	"testing"
	"time"
)

// fault is something that happens to a cluster, and how it ends.
type fault struct {
	name   string
	inject func(context.Context, *stage) error
	heal   func(context.Context, *stage) error // also undoes what inject has done only in part

	state  string // that the cluster is shown in while it lasts; empty: any
	reason string // part of what /debug/clusters shows about it then

	verify func(context.Context, *stage) error // afterwards; it is tried again for a while
}

// TestFaults plays faults of linked clusters, all at once except those of an API server, which have
// one each while they last. The others are on the way to an API server that stays well.
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
			t.Cleanup(func() { free <- at }) // once the stage is cleared
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

// TestOwnCluster plays faults of the gateway's own cluster, one after the other. What it
// offered stays, as with other clusters; links stay as they are; and linked clusters are followed.
func TestOwnCluster(t *testing.T) {
	inTurn(t)
	w := newWorld(t, nil)
	for _, f := range ownFaults() {
		t.Run(f.name, func(t *testing.T) { f.play(t, w.newOwnStage(t, f.name)) })
	}
}

// play injects the fault, lets it last, heals it, and checks what must hold.
func (f fault) play(t *testing.T, s *stage) {
	ctx, healed := t.Context(), false
	t.Cleanup(func() {
		if !healed { // or others would fail for it
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

// last checks what must hold while the fault lasts.
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
