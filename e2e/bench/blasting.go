package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"isthmus/e2e/admin"
	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/proc"
	"isthmus/e2e/poll"
	"isthmus/internal/adminapi"
)

const mostGarbage = 4 << 30

// block lets Services change for so many rounds beside a flood, and returns what that was like. The garbage of this process,
// which has the API servers and the client, is collected before: what would wait for that is not the gateway's delay.
func (b *blasting) block(ctx context.Context, flood *flood, rounds, most int) (Sample, error) {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(mostGarbage)) // from there on it collects
	m, err := startPeakMeter(b.gateway.Pid(), b.streams)
	if err != nil {
		return nil, err
	}
	flood.start(ctx, b.scale.Events, most)
	written, err := b.changes(ctx, rounds)
	took := time.Since(m.began)
	cpu, failed := m.cpu()
	events, wrong := flood.end()
	if err := errors.Join(err, failed, wrong, settle(ctx, b.streams)); err != nil {
		return nil, err
	}
	peak, err := proc.Peak(m.pid)
	if err != nil {
		return nil, err
	}
	delays, err := nextDelays(b.streams, written)
	if err != nil {
		return nil, err
	}
	return Sample{
		"p50": percentile(delays, 50), "p99": percentile(delays, 99), "most": delays[len(delays)-1],
		"share": share(cpu, took), "peak": megabytes(peak), "events": float64(events) / took.Seconds(),
	}, nil
}

// changes takes one endpoint of every Service away, and then brings all back, round after round, and returns when each was
// written: just before, since a watch can be faster than what would note the time after that. The clusters take turns, but for
// the one that floods. What is late is not made up for: an endpoint that is away for too short a time is never missed.
func (b *blasting) changes(ctx context.Context, rounds int) (map[string][]time.Time, error) {
	written := map[string][]time.Time{}
	next, every := time.Now(), time.Second/time.Duration(b.scale.Rate)
	for i := range 2 * rounds * b.scale.Services {
		if err := poll.Pause(ctx, time.Until(next)); err != nil {
			return nil, err
		}
		if next = next.Add(every); time.Until(next) < 0 {
			next = time.Now()
		}
		n := i % b.scale.Services
		name, _ := fleet.Service(n, false)
		_, authority := fleet.Service(n, true)
		written[authority] = append(written[authority], time.Now())
		if err := b.fleet.Flip(flooding+1+n%(b.scale.Linked-1), name); err != nil {
			return nil, err
		}
	}
	return written, nil
}

// state returns what the gateway shows of the cluster that floods.
func (b *blasting) state(ctx context.Context) (c adminapi.Cluster, err error) {
	page, err := admin.ReadClusters(ctx, b.gateway.MetricsAddr())
	if err != nil {
		return c, err
	}
	all := admin.Named(page, fleet.Name(flooding))
	if len(all) != 1 {
		return c, fmt.Errorf("the gateway shows %d clusters %s", len(all), fleet.Name(flooding))
	}
	return all[0], nil
}

// await waits until the gateway shows that of the cluster that floods.
func (b *blasting) await(ctx context.Context, is func(adminapi.Cluster) bool) error {
	return poll.Until(ctx, floodLimit, 100*time.Millisecond, func() error {
		c, err := b.state(ctx)
		if err == nil && !is(c) {
			err = fmt.Errorf("the cluster that has flooded is %+v", c)
		}
		return err
	})
}

// ofOneService returns how many streams the first Service has.
func (b *blasting) ofOneService() (n int) {
	_, authority := fleet.Service(0, true)
	b.streams.Arrivals(func(to load.Target, _ []time.Time) {
		if to.Authority == authority {
			n++
		}
	})
	return n
}
