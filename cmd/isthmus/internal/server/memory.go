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
	unknownMemory = 4 << 30
	// The default of --cluster-memory is at most mostClusterMemory bytes. The cache of a cluster
	// with 100,000 Pods needs about half of mostClusterMemory.
	mostClusterMemory = 256 << 20
	// minClusterMemory is the minimum value of --cluster-memory, in bytes. The cache of a cluster
	// with about 3,000 ordinary Pods fits into minClusterMemory.
	minClusterMemory = 4 << 20
	// minViewMemory is the minimum value of --view-memory, in bytes. Endpoint sets with 3,000
	// endpoints in total fit into minViewMemory.
	minViewMemory = 1 << 20
	// The default of --view-memory is at most mostViewMemory bytes. Endpoint sets with six million
	// endpoints in total fit into mostViewMemory.
	mostViewMemory = 2 << 30
	// streamMemory is the estimated memory that one open call uses, in bytes. The default of
	// --max-streams is computed from streamMemory. The estimate includes the goroutine, gRPC's
	// buffers, 2 KiB of headers, and a share of the connection.
	streamMemory = 14 << 10
)

// limitMemory sets Go's memory limit to 90% of the container's memory limit, unless the environment
// sets GOMEMLIMIT.
func limitMemory(log *zap.Logger) {
	_, err := memlimit.Set() // keeps GOMEMLIMIT if set
	if err != nil && !errors.Is(err, memlimit.ErrCgroupsNotSupported) && !errors.Is(err, memlimit.ErrNoCgroup) {
		log.Warn("cannot read the container's memory limit: set GOMEMLIMIT to 90% of the limit", zap.Error(err))
	}
}

// usableMemory returns the memory that the process may use, in bytes. The result is the smaller of
// GOMEMLIMIT and the container's memory limit. If the container has no memory limit, usableMemory
// uses the machine's memory instead.
func usableMemory() int64 {
	memory, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil || memory == 0 {
		memory = unknownMemory
	}
	return int64(min(memory, uint64(debug.SetMemoryLimit(-1))))
}

// clusterCap computes the memory cap of each linked cluster, in bytes, from the usable memory and
// --cluster-memory. By default, the cap is a quarter of the usable memory, but at least
// minClusterMemory (4 MiB) and at most mostClusterMemory (256 MiB).
func clusterCap(usable, cluster int64) int64 {
	if cluster == 0 {
		return max(minClusterMemory, min(usable/4, mostClusterMemory))
	}
	return cluster
}

// streamLimit computes the maximum number of open calls from the usable memory and --max-streams.
// By default, open calls may use up to half of the usable memory.
func streamLimit(usable int64, streams uint32) int {
	if streams == 0 {
		return int(max(1, usable/2/streamMemory))
	}
	return int(streams)
}

// viewLimit returns the maximum amount of memory, in bytes, that all views together may use. The
// maximum depends on the usable memory and on --view-memory. By default, the limit is a quarter of
// the usable memory, but at least minViewMemory (1 MiB) and at most mostViewMemory (2 GiB). By
// default, open calls may use up to half of the usable memory and views usually up to a quarter,
// which leaves a quarter for everything else.
func viewLimit(usable, view int64) int {
	if view == 0 {
		view = max(minViewMemory, min(usable/4, mostViewMemory))
	}
	return int(view)
}

// returnMemory returns free memory to the operating system. Listing objects needs more memory than
// caching them, so a replica has a large amount of free memory after it has listed the objects of
// all clusters.
func returnMemory() { debug.FreeOSMemory() }

// These constants limit the garbage that Go may accumulate, unless GOGC is set in the environment.
// The limit is maxGarbage bytes, but at least minGCPercent percent and at most maxGCPercent percent
// of the memory in use.
//
// Go's default GOGC of 100 is unsuitable for both small and large heaps. The heap of an idle
// replica is so small that, with a GOGC of 100, Go would collect garbage constantly while thousands
// of proxies connect. With a large heap, a GOGC of 100 would waste memory.
//
// Until the replica is ready, garbageAtStart replaces maxGarbage. A replica that is not ready
// produces a large amount of garbage while it lists objects. Before the replica is ready, frequent
// garbage collection does not slow down any proxy.
const (
	maxGarbage     = 64 << 20
	garbageAtStart = 16 << 20
	minGCPercent   = 15
	maxGCPercent   = 200
)

// runGCTuner adjusts GOGC after each garbage collection until ctx is done.
func runGCTuner(ctx context.Context, ready *atomic.Bool) error {
	if os.Getenv("GOGC") == "" {
		tuneGC(ctx, ready)
	}
	<-ctx.Done()
	return nil
}

// tuneGC adjusts GOGC to the memory in use, first immediately and then after each garbage
// collection, until ctx is done.
func tuneGC(ctx context.Context, ready *atomic.Bool) {
	if ctx.Err() != nil {
		return
	}
	// GOGC is relative to the sum of the live heap, the stacks and the globals.
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
	most := uint64(maxGarbage)
	if !ready {
		most = garbageAtStart
	}
	return int(min(maxGCPercent, max(minGCPercent, 100*most/max(inUse, 1))))
}
