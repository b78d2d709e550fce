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
const (
	garbage        = 64 << 20
	leastGCPercent = 15
	mostGCPercent  = 200
)

// runGCTuner sets GOGC after each collection, until ctx ends.
func runGCTuner(ctx context.Context) error {
	if os.Getenv("GOGC") == "" {
		var over atomic.Bool
		debug.SetGCPercent(mostGCPercent)
		afterEachGC(&over)
		defer over.Store(true)
	}
	<-ctx.Done()
	return nil
}

// afterEachGC sets GOGC by what the next collection finds in use, and so on.
func afterEachGC(over *atomic.Bool) {
	runtime.AddCleanup(new([64]byte), func(over *atomic.Bool) {
		if over.Load() {
			return
		}
		// What GOGC is a percentage of.
		inUse := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
		metrics.Read(inUse)
		debug.SetGCPercent(gcPercentOf(inUse[0].Value.Uint64() + inUse[1].Value.Uint64() + inUse[2].Value.Uint64()))
		afterEachGC(over)
	}, over)
}

func gcPercentOf(inUse uint64) int {
	return int(min(mostGCPercent, max(leastGCPercent, 100*garbage/max(inUse, 1))))
}
