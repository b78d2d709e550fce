package server

import (
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"go.uber.org/zap"
)

const (
	// unknownMemory is what a process may use where the system does not say, in bytes.
	unknownMemory = 4 << 30
	// mostClusterMemory is the largest default of --cluster-memory, in bytes: twice what a cluster of 100,000
	// Pods needs.
	mostClusterMemory = 256 << 20
	// minClusterMemory is the least that --cluster-memory may be, in bytes: some 3,000 ordinary
	// Pods.
	minClusterMemory = 4 << 20
	// minViewMemory is the least that --view-memory may be, in bytes: sets of 3,000 endpoints.
	minViewMemory = 1 << 20
	// mostViewMemory is the largest default of --view-memory, in bytes: sets of six million endpoints.
	mostViewMemory = 2 << 30
	// streamMemory is what --max-streams allows for each open call, in bytes: the goroutine, what gRPC keeps, headers
	// of 2 KiB, and a part of the connection.
	streamMemory = 14 << 10
)

// limitMemory sets a memory limit for Go of 90 % of the container's, unless the environment
// has a GOMEMLIMIT.
func limitMemory(log *zap.Logger) {
	_, err := memlimit.Set() // 90 %, unless there is a GOMEMLIMIT
	if err != nil && !errors.Is(err, memlimit.ErrCgroupsNotSupported) && !errors.Is(err, memlimit.ErrNoCgroup) {
		log.Warn("the container's memory limit can't be read: set GOMEMLIMIT to 90 % of it", zap.Error(err))
	}
}

// usableMemory returns how much memory the process may use, in bytes: the least of the
// container's limit, or else the machine's memory, and GOMEMLIMIT.
func usableMemory() int64 {
	memory, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil || memory == 0 {
		memory = unknownMemory
	}
	return int64(min(memory, uint64(debug.SetMemoryLimit(-1))))
}

// clusterCap returns the memory cap of each linked cluster in a process that may use that much memory, in bytes.
// cluster is --cluster-memory. If it is zero, the cap is a quarter of the usable memory, but no more than
// mostClusterMemory.
func clusterCap(usable, cluster int64) int64 {
	if cluster == 0 {
		return max(minClusterMemory, min(usable/4, mostClusterMemory))
	}
	return cluster
}

// streamLimit returns how many calls may be open in a process that may use that much memory. streams is --max-streams.
// If it is zero, calls may take half of the memory.
func streamLimit(usable int64, streams uint32) int {
	if streams == 0 {
		return int(max(1, usable/2/streamMemory))
	}
	return int(streams)
}

// viewLimit returns how many bytes views may take in a process that may use that much memory. view is --view-memory.
// If it is zero, views may take a quarter of the memory, so that calls and views together leave a quarter for all
// else.
func viewLimit(usable, view int64) int {
	if view == 0 {
		view = max(minViewMemory, min(usable/4, mostViewMemory))
	}
	return int(view)
}

// returnMemory returns to the system the memory that listing all clusters took,
// which is more than what is kept of them. It takes some milliseconds.
func returnMemory() { debug.FreeOSMemory() }

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
	inUse := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(inUse)
	sum := uint64(0)
	for _, s := range inUse {
		sum += s.Value.Uint64()
	}
	debug.SetGCPercent(gcPercentOf(sum, ready.Load()))
	runtime.AddCleanup(new([64]byte), func(ctx context.Context) { tuneGC(ctx, ready) }, ctx)
}

func gcPercentOf(inUse uint64, ready bool) int {
	most := uint64(garbage)
	if !ready {
		most = garbageAtStart
	}
	return int(min(mostGCPercent, max(leastGCPercent, 100*most/max(inUse, 1))))
}
