package audit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

// BenchmarkBegin is what a tick costs with 10,000 services of which none is due.
func BenchmarkBegin(b *testing.B) {
	var services []federation.WatchedService
	for i := range 10_000 {
		services = append(services, service(fmt.Sprint("s", i), "east", "north"))
	}
	a, err := New(Options{
		Interval: time.Hour,
		Services: func() []federation.WatchedService { return services },
		Cluster:  func(federation.ClusterName) (Cluster, cluster.State) { return nil, cluster.Stale },
	})
	if err != nil {
		b.Fatal(err)
	}
	var running sync.WaitGroup
	now := time.Now()
	a.round = round{first: now, began: now}
	b.ReportAllocs()
	for b.Loop() {
		a.begin(context.Background(), &running, now, now)
	}
	running.Wait()
}
