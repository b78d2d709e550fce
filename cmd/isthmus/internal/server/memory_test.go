package server

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestClusterCap checks the memory cap of a linked cluster. Without the flag, the cap is a quarter
// of the usable memory, and at most 256 MiB.
func TestClusterCap(t *testing.T) {
	for _, tt := range []struct{ usable, flag, want int64 }{
		{250 << 20, 0, 250 << 18},
		{250 << 20, 32 << 20, 32 << 20},
		{250 << 20, 200 << 20, 200 << 20},
		{12 << 20, 0, minClusterMemory},
		{1 << 30, 0, 256 << 20},
		{64 << 30, 0, 256 << 20},
	} {
		if got := clusterCap(tt.usable, tt.flag); got != tt.want {
			t.Errorf("%d, %d: %d, want %d", tt.usable, tt.flag, got, tt.want)
		}
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(100 << 20))
	if got := usableMemory(); got != 100<<20 {
		t.Errorf("GOMEMLIMIT is 100 MiB, but %d bytes are usable", got)
	}
}

// TestStreamLimit checks that calls may use half of the memory, unless the flag is set.
func TestStreamLimit(t *testing.T) {
	for _, tt := range []struct {
		usable int64
		flag   uint32
		want   int
	}{
		{450 << 20, 0, 16_457}, {250 << 20, 0, 9_142}, {250 << 20, 50_000, 50_000}, {250 << 20, 10, 10}, {1, 0, 1},
	} {
		if got := streamLimit(tt.usable, tt.flag); got != tt.want {
			t.Errorf("%d, %d: %d, want %d", tt.usable, tt.flag, got, tt.want)
		}
	}
}

// TestViewLimit checks that views may use a quarter of the memory, unless the flag is set.
func TestViewLimit(t *testing.T) {
	for _, tt := range []struct{ usable, flag, want int64 }{
		{250 << 20, 0, 250 << 18},
		{250 << 20, 2 << 20, 2 << 20},
		{1 << 20, 0, minViewMemory},
		{64 << 30, 0, mostViewMemory},
	} {
		if got := viewLimit(tt.usable, tt.flag); got != int(tt.want) {
			t.Errorf("%d, %d: %d, want %d", tt.usable, tt.flag, got, tt.want)
		}
	}
}

func TestGCPercentOf(t *testing.T) {
	for inUse, want := range map[uint64]int{
		0:               maxGCPercent,
		maxGarbage / 4:  maxGCPercent,
		maxGarbage:      100,
		2 * maxGarbage:  50,
		40 * maxGarbage: minGCPercent,
	} {
		if got := gcPercentOf(inUse, true); got != want {
			t.Errorf("%d in use: %d, want %d", inUse, got, want)
		}
	}
	if got := gcPercentOf(2*garbageAtStart, false); got != 50 {
		t.Errorf("at the start, %d in use: %d, not 50", 2*garbageAtStart, got)
	}
}

// TestGCTuner checks that GOGC adapts to the memory in use after each collection, until the context
// ends.
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
			time.Sleep(time.Millisecond) // cleanups run in their own goroutine
		}
	}
	percent(func(p int) bool { return p > 100 })
	ballast := make([]byte, 100*maxGarbage/minGCPercent)
	percent(func(p int) bool { return p == minGCPercent })
	runtime.KeepAlive(ballast)
	ballast = nil
	percent(func(p int) bool { return p > 100 })
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestGCTunerLeavesGOGC checks that GOGC in the environment takes precedence.
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
