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
	// unknownMemory is the assumed usable memory, in bytes, if the system does not report it.
	unknownMemory = 4 << 30
	// mostClusterMemory is the largest default of --cluster-memory, in bytes. mostClusterMemory is
	// twice what a cluster of 100,000 Pods needs.
	mostClusterMemory = 256 << 20
	// minClusterMemory is the smallest value of --cluster-memory, in bytes. minClusterMemory is
	// enough for about 3,000 ordinary Pods.
	minClusterMemory = 4 << 20
	// minViewMemory is the smallest value of --view-memory, in bytes. minViewMemory is enough for
	// sets of 3,000 endpoints.
	minViewMemory = 1 << 20
	// mostViewMemory is the largest default of --view-memory, in bytes. mostViewMemory is enough
	// for sets of six million endpoints.
	mostViewMemory = 2 << 30
	// streamMemory is the memory that the default of --max-streams reserves for each open call, in
	// bytes. streamMemory covers the goroutine, gRPC's buffers, headers of 2 KiB, and a share of
	// the connection.
	streamMemory = 14 << 10
)

// limitMemory sets Go's memory limit to 90 % of the container's limit, unless the environment sets
// GOMEMLIMIT.
func limitMemory(log *zap.Logger) {
	_, err := memlimit.Set() // keeps GOMEMLIMIT if set
	if err != nil && !errors.Is(err, memlimit.ErrCgroupsNotSupported) && !errors.Is(err, memlimit.ErrNoCgroup) {
		log.Warn("cannot read the container's memory limit: set GOMEMLIMIT to 90 % of the limit", zap.Error(err))
	}
}

// usableMemory returns the memory that the process may use, in bytes. The result is the container's
// limit, or the machine's memory if there is no limit. If GOMEMLIMIT is smaller, the result is
// GOMEMLIMIT.
func usableMemory() int64 {
	memory, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil || memory == 0 {
		memory = unknownMemory
	}
	return int64(min(memory, uint64(debug.SetMemoryLimit(-1))))
}

// clusterCap returns the memory cap of each linked cluster, in bytes. usable is the usable memory,
// and cluster is --cluster-memory. If cluster is zero, the cap is a quarter of the usable memory,
// but at most mostClusterMemory.
func clusterCap(usable, cluster int64) int64 {
	if cluster == 0 {
		return max(minClusterMemory, min(usable/4, mostClusterMemory))
	}
	return cluster
}

// streamLimit returns the maximum number of open calls. usable is the usable memory in bytes, and
// streams is --max-streams. If streams is zero, calls may use half of the memory.
func streamLimit(usable int64, streams uint32) int {
	if streams == 0 {
		return int(max(1, usable/2/streamMemory))
	}
	return int(streams)
}

// viewLimit returns the maximum memory of views, in bytes. usable is the usable memory, and view is
// --view-memory. If view is zero, views may use a quarter of the memory. Calls and views together
// then leave a quarter for everything else.
func viewLimit(usable, view int64) int {
	if view == 0 {
		view = max(minViewMemory, min(usable/4, mostViewMemory))
	}
	return int(view)
}

// returnMemory returns free memory to the operating system. Listing all clusters needs more memory
// than their cache. The call takes a few milliseconds.
func returnMemory() { debug.FreeOSMemory() }

// The amount of garbage that Go may accumulate, unless the environment sets GOGC. The amount is the
// larger of garbage bytes and leastGCPercent of the memory in use, but at most mostGCPercent.
//
// The heap of an idle replica is small. With Go's default of 100, a replica would collect garbage
// again and again while thousands of proxies connect. For a large heap, the same percentage would
// waste memory.
//
// Before the replica is ready, no proxy waits for the collector, and listed objects become garbage
// at once. The limit is therefore garbageAtStart bytes until then.
const (
	garbage        = 64 << 20
	garbageAtStart = 16 << 20
	leastGCPercent = 15
	mostGCPercent  = 200
)

// runGCTuner sets GOGC after each garbage collection until ctx ends. ready reports whether the
// replica is ready.
func runGCTuner(ctx context.Context, ready *atomic.Bool) error {
	if os.Getenv("GOGC") == "" {
		tuneGC(ctx, ready)
	}
	<-ctx.Done()
	return nil
}

// tuneGC sets GOGC for the memory that the last collection left in use, now and after each
// collection.
func tuneGC(ctx context.Context, ready *atomic.Bool) {
	if ctx.Err() != nil {
		return
	}
	// GOGC is a percentage of the sum of these metrics.
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
