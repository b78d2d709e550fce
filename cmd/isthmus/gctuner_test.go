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
	for inUse, want := range map[uint64]int{0: mostGCPercent, garbage / 4: mostGCPercent, garbage: 100, 2 * garbage: 50, 40 * garbage: leastGCPercent} {
		if got := gcPercentOf(inUse, true); got != want {
			t.Errorf("%d in use: %d, not %d", inUse, got, want)
		}
	}
	if got := gcPercentOf(2*garbageAtStart, false); got != 50 {
		t.Errorf("at the start, %d in use: %d, not 50", 2*garbageAtStart, got)
	}
}

// TestGCTuner: GOGC follows what is in use after each collection, both ways, until the end.
func TestGCTuner(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	ctx, end := context.WithCancel(t.Context())
	ended, ready := make(chan error), new(atomic.Bool)
	ready.Store(true)
	go func() { ended <- runGCTuner(ctx, ready) }()
	percent := func(becomes func(int) bool) {
		t.Helper()
		for {
			runtime.GC()
			now := debug.SetGCPercent(50)
			debug.SetGCPercent(now)
			if becomes(now) {
				return
			}
			time.Sleep(time.Millisecond) // cleanups have a goroutine of their own
		}
	}
	percent(func(p int) bool { return p > 100 })
	ballast := make([]byte, 100*garbage/leastGCPercent)
	percent(func(p int) bool { return p == leastGCPercent })
	runtime.KeepAlive(ballast)
	ballast = nil
	percent(func(p int) bool { return p > 100 })
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestGCTunerLeavesGOGC: a GOGC of the environment wins.
func TestGCTunerLeavesGOGC(t *testing.T) {
	const before = 70
	defer debug.SetGCPercent(debug.SetGCPercent(before))
	for _, env := range []string{"50", "off"} {
		t.Setenv("GOGC", env)
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithTimeout(t.Context(), time.Second)
			defer end()
			if err := runGCTuner(ctx, new(atomic.Bool)); err != nil {
				t.Error(err)
			}
		})
		if got := debug.SetGCPercent(before); got != before {
			t.Errorf("GOGC=%s: set to %d", env, got)
		}
	}
}
