package faults

import (
	"context"
	"slices"
	"testing"
	"time"
)

// fault is something that happens to a cluster, and how it ends.
type fault struct {
	name   string
	proves string // behaviours of testdata/README.md
	inject func(context.Context, *stage) error
	heal   func(context.Context, *stage) error // also undoes what inject has done only in part

	// while it lasts
	state  string              // that the cluster is shown in; empty: any
	reason string              // part of what /debug/clusters shows about it
	metric func(*stage) string // a series that is 1
	sees   bool                // what changes in the cluster goes on arriving
	leaves bool                // the cluster is not linked

	verify func(context.Context, *stage) error // afterwards; it is tried again for a while
}

// chosen returns those of the faults that -fault names.
func chosen(list []fault) []fault {
	return slices.DeleteFunc(list, func(f fault) bool { return !only.MatchString(f.name) })
}

// TestFaults plays every fault, all at once but for those of an API server, which have one each while they last. The
// others are on the way to an API server that stays well.
func TestFaults(t *testing.T) {
	inTurn(t)
	w := newWorld(t, nil, "east", "south")
	free := make(chan *site, len(w.more))
	for _, at := range w.more {
		free <- at
	}
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		for _, f := range chosen(serverFaults()) {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				at := <-free
				t.Cleanup(func() { free <- at }) // once the stage is cleared
				f.play(t, w.newStage(t, f.name, at))
			})
		}
	})
	for group, list := range map[string][]fault{"connection": connectionFaults(), "credentials": credentialFaults(), "secret": secretFaults()} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			for _, f := range chosen(list) {
				t.Run(f.name, func(t *testing.T) {
					t.Parallel()
					f.play(t, w.newStage(t, f.name, w.north))
				})
			}
		})
	}
}

// TestOwnCluster plays faults of API servers and connections on the gateway's own cluster, one after the other. What it
// offered stays, as with other clusters; links stay as they are; and linked clusters are followed.
func TestOwnCluster(t *testing.T) {
	inTurn(t)
	names := either([]string{"killed", "refused", "half-open"}, []string{"killed", "restarted", "paused", "history-forgotten",
		"refused", "silent", "half-open", "heard-but-not-answered", "slow", "little-gets-through", "reset-again-and-again"})
	list := slices.DeleteFunc(chosen(slices.Concat(serverFaults(), connectionFaults())), func(f fault) bool {
		return !slices.Contains(names, f.name)
	})
	if len(list) == 0 {
		t.Skip("none of the faults that are chosen is played on the gateway's own cluster")
	}
	w := newWorld(t, nil)
	for _, f := range list {
		if f.state == "stale" {
			f.metric = func(*stage) string { return "isthmus_link_secrets_unreadable" }
		}
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
	if f.state != "" {
		s.awaitState(t, s.cluster, f.state, notice)
	}
	f.last(t, s)
	must(t, f.heal(ctx, s))
	healed = true
	s.awaitState(t, s.cluster, "ready", recovery)
	s.churn.finish(s)
	s.converge()
	s.verify(f.leaves)
	if f.verify != nil {
		await(t, recovery, func() error { return f.verify(ctx, s) })
	}
}

// last checks what must hold while the fault lasts.
func (f fault) last(t *testing.T, s *stage) {
	t.Helper()
	known := s.members()
	if f.leaves {
		known = s.healthy()
	}
	s.late(known...)
	if f.reason != "" {
		await(t, notice, func() error { return s.explains(t.Context(), f.reason) })
	}
	if f.metric != nil {
		await(t, notice, func() error { return s.shows(t.Context(), f.metric(s)) })
	}
	if f.sees {
		s.seen()
	}
	select {
	case <-time.After(either(300*time.Millisecond, 20*time.Second)):
	case <-t.Context().Done():
	}
	if f.state != "" {
		s.awaitState(t, s.cluster, f.state, recovery)
	}
}
