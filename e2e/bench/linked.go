package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"isthmus/e2e/admin"
	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/proc"
	"isthmus/e2e/poll"
	"isthmus/internal/adminapi"
)

// LinkedScale is how many clusters are linked.
type LinkedScale struct {
	Clusters            []int // the points of the curve
	Services, Endpoints int   // in each cluster, and of each Service there
	Spread              int   // clusters that have the same Services
	Rest                time.Duration
}

func linkedLines() []Line {
	return []Line{
		{Title: "linked clusters, memory at most, at start", Unit: "MB"},
		{Title: "linked clusters, memory at rest", Unit: "MB"},
		{Title: "linked clusters, CPU at rest, of one core", Unit: "%"},
		{Title: "linked clusters, CPU to start", Unit: "s"},
		{Title: "linked clusters, start to ready, all read", Unit: "s"},
	}
}

// linkedClusters is what clusters cost in which nothing changes, and of which nobody asks for anything. Their API servers
// are reached as real ones are, by TLS and HTTP/2: by plain HTTP each watch would be a connection of its own.
func linkedClusters(ctx context.Context, cfg Config, s GrowthScale, clusters int) ([]float64, error) {
	c := s.Linked
	what := fleet.Config{Linked: clusters, Services: c.Services, Slices: 1, Endpoints: c.Endpoints, Spread: c.Spread, TLS: true}
	return withFleet(ctx, cfg, what, func(f *followed) ([]float64, error) {
		pid, began := f.gateway.Pid(), time.Now()
		read := func() error { return allRead(ctx, f.gateway.MetricsAddr(), clusters) }
		if err := poll.Until(ctx, trialLimit, time.Second, read); err != nil {
			return nil, err
		}
		took := f.ready + time.Since(began)
		started, err := proc.CPU(pid)
		if err != nil {
			return nil, err
		}
		if err := poll.Pause(ctx, c.Rest); err != nil { // until connections and memory that the start took are given back
			return nil, err
		}
		rested, err := proc.CPU(pid)
		if err != nil {
			return nil, err
		}
		if err := poll.Pause(ctx, c.Rest); err != nil {
			return nil, err
		}
		end, err := proc.CPU(pid)
		if err != nil {
			return nil, err
		}
		peak, err := proc.Peak(pid)
		if err != nil {
			return nil, err
		}
		memory, err := proc.ReadMemory(pid)
		return []float64{
			megabytes(peak), megabytes(memory.RSS), share(end-rested, c.Rest), started.Seconds(), took.Seconds(),
		}, err
	})
}

// allRead checks that so many clusters are linked, and all have been read.
func allRead(ctx context.Context, addr string, clusters int) error {
	page, err := admin.ReadClusters(ctx, addr)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(page.Clusters, func(c adminapi.Cluster) bool { return c.State != "ready" }); i >= 0 {
		return fmt.Errorf("cluster %s is %s: %s", page.Clusters[i].Cluster, page.Clusters[i].State, page.Clusters[i].Reason)
	}
	if n := len(page.Clusters); n != clusters {
		return fmt.Errorf("%d clusters are linked, not %d", n, clusters)
	}
	return nil
}
