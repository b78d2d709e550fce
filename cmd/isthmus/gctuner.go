package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// How much garbage there may be, unless the environment sets GOGC: garbage bytes or, if that is
// more, leastGCPercent of what is in use, but mostGCPercent at most. The heap of an idle gateway is
// small, so with Go's default of 100 it would collect again and again while thousands of proxies
// connect; and of a large heap the same percentage is memory that the gateway could do without.
// Until the gateway is ready no proxy waits for the collector, and what is listed becomes garbage
// at once: then it is garbageAtStart.
const (
	garbage        = 64 << 20
	garbageAtStart = 16 << 20
	leastGCPercent = 15
	mostGCPercent  = 200
)

// runGCTuner sets GOGC after each collection, until ctx ends. ready is whether the gateway is.
func runGCTuner(ctx context.Context, ready *atomic.Bool) error {
	if os.Getenv("GOGC") == "" {
		tuneGC(ctx, ready)
	}
	<-ctx.Done()
	return nil
}

// tuneGC sets GOGC by what the last collection has left in use, now and after each one.
func tuneGC(ctx context.Context, ready *atomic.Bool) {
	if ctx.Err() != nil {
		return
	}
	// What GOGC is a percentage of.
	inUse := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(inUse)
	debug.SetGCPercent(gcPercentOf(inUse[0].Value.Uint64()+inUse[1].Value.Uint64()+inUse[2].Value.Uint64(), ready.Load()))
	runtime.AddCleanup(new([64]byte), func(ctx context.Context) { tuneGC(ctx, ready) }, ctx)
}

func gcPercentOf(inUse uint64, ready bool) int {
	most := uint64(garbage)
	if !ready {
		most = garbageAtStart
	}
	return int(min(mostGCPercent, max(leastGCPercent, 100*most/max(inUse, 1))))
}
