package main

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/resource"
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

// memory reads a quantity of so many bytes at least. Empty is 0.
func memory(least int64) func(string) (int64, error) {
	return func(text string) (int64, error) {
		if text == "" {
			return 0, nil
		}
		q, err := resource.ParseQuantity(text)
		switch {
		case err != nil:
			return 0, errors.New("give a number of bytes such as 64Mi")
		case q.CmpInt64(least) < 0:
			return 0, fmt.Errorf("give %dMi or more", least>>20)
		}
		return q.Value(), nil
	}
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
