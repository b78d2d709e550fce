package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestGCPercentOf(t *testing.T) {
	for inUse, want := range map[uint64]struct{ atStart, ready int }{
		0:            {mostGCPercent, mostGCPercent},
		garbage / 4:  {mostGCPercent, mostGCPercent},
		garbage / 2:  {100, mostGCPercent},
		garbage:      {50, 100},
		2 * garbage:  {percentAtStart, 50},
		much:         {percentAtStart, 30},
		much + 1:     {percentAtStart, 20},
		8 * garbage:  {percentAtStart, percentOfMuch},
		40 * garbage: {percentAtStart, percentOfMuch},
	} {
		if got := gcPercentOf(inUse, mostGarbage(inUse, false)); got != want.atStart {
			t.Errorf("%d in use at start: %d, not %d", inUse, got, want.atStart)
		}
		if got := gcPercentOf(inUse, mostGarbage(inUse, true)); got != want.ready {
			t.Errorf("%d in use: %d, not %d", inUse, got, want.ready)
		}
	}
}

// TestGCTuner: GOGC follows what is in use, both ways, and is lower until the gateway is ready.
func TestGCTuner(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		var ready atomic.Bool
		go func() { ended <- newGCTuner(&ready).run(ctx) }()
		percent := func() int {
			runtime.GC()
			for range 2 {
				synctest.Wait()
				time.Sleep(gcTunePace)
			}
			synctest.Wait()
			now := debug.SetGCPercent(50)
			debug.SetGCPercent(now)
			return now
		}
		if got := percent(); got <= percentOfMuch { // other tests may have left something
			t.Errorf("little in use: %d", got)
		}
		some := make([]byte, garbage)
		starting := percent()
		ready.Store(true)
		if got := percent(); got <= starting {
			t.Errorf("as much is in use: %d, and %d until the gateway is ready", got, starting)
		}
		runtime.KeepAlive(some)
		some = nil
		ballast := make([]byte, much)
		if got := percent(); got > 100*garbageOfMuch/much || got <= percentOfMuch {
			t.Errorf("%d bytes in use: %d", len(ballast), got)
		}
		runtime.KeepAlive(ballast)
		ballast = make([]byte, 100*garbageOfMuch/percentOfMuch)
		if got := percent(); got != percentOfMuch {
			t.Errorf("%d bytes in use: %d", len(ballast), got)
		}
		if pace := newGCTuner(&ready).adjust(); pace != gcTunePaceFast {
			t.Errorf("%d bytes in use: looked at again after %v", len(ballast), pace)
		}
		runtime.KeepAlive(ballast)
		ballast = nil
		if got := percent(); got <= percentOfMuch {
			t.Errorf("little in use again: %d", got)
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestGCTunerLeavesGOGC: a GOGC of the environment wins.
func TestGCTunerLeavesGOGC(t *testing.T) {
	const before = 70
	defer debug.SetGCPercent(debug.SetGCPercent(before))
	for _, env := range []string{"50", "off"} {
		t.Setenv("GOGC", env)
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithTimeout(t.Context(), 3*gcTunePace)
			defer end()
			if err := newGCTuner(new(atomic.Bool)).run(ctx); err != nil {
				t.Error(err)
			}
		})
		if got := debug.SetGCPercent(before); got != before {
			t.Errorf("GOGC=%s: set to %d", env, got)
		}
	}
}
