package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"isthmus/e2e/admin"
	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/proc"
	"isthmus/e2e/bench/world"
	"isthmus/e2e/poll"
)

// ManyScale is how much there is with many clusters.
type ManyScale struct {
	Linked    int // clusters
	Services  int // of each cluster
	Endpoints int // of each of these
	Spread    int // clusters that have the same Services: so many members a federated Service has
	Streams   int
	Conns     int
	Rates     Rates
	Over      time.Duration // in which changes are measured
}

// Rates are how many changes there are in each cluster a second.
type Rates struct{ Node, Endpoint, Label float64 }

func manyTrial() Trial {
	return Trial{Name: "clusters", Repeats: 1, own: many, Metrics: []Metric{
		{Key: "rate", Label: "changes a second, of all clusters", Unit: ""},
		{Key: "share", Label: "CPU of one core", Unit: "%", Most: 50},
		{Key: "memory", Label: "peak resident memory, with all streams", Unit: "MB", Most: 600},
		{Key: "heap", Label: "heap in use after a collection, with all streams", Unit: "MB"},
		{Key: "idle", Label: "resident memory without streams", Unit: "MB"},
		{Key: "p50", Label: "the last stream has a change, median", Unit: "ms"},
		{Key: "p99", Label: "the last stream has a change, 99th percentile", Unit: "ms", Most: 100},
		{Key: "ready", Label: "process start to ready", Unit: "s"},
	}}
}

// many lets hundreds of clusters change as they do, under open streams. There is no floor: it follows no clusters.
func many(ctx context.Context, l *Lab) (samples map[Kind]Sample, err error) {
	s := l.cfg.Scale.Many
	what := fleet.Config{Linked: s.Linked, Services: s.Services, Slices: 1, Endpoints: s.Endpoints, Spread: s.Spread, TLS: true}
	f, err := follow(ctx, l.cfg, what, "-enable-pprof")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.end(ctx)) }()
	g := f.gateway
	idle, err := proc.Settled(ctx, g.Pid(), l.cfg.Scale.Settle)
	if err != nil {
		return nil, err
	}
	streams, err := openMany(ctx, g.Addr(), s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, streams.Close()) }()
	sample, err := newManyChanges(f.fleet, s).measure(ctx, g.Pid(), streams)
	if err != nil {
		return nil, err
	}
	heap, err := admin.Heap(ctx, g.MetricsAddr())
	if err != nil {
		return nil, err
	}
	sample["ready"], sample["idle"], sample["heap"] = f.ready.Seconds(), megabytes(idle.RSS), megabytes(uint64(heap))
	return map[Kind]Sample{Gateway: sample}, nil
}

// openMany opens all streams, spread over all federated Services, and waits until what that took is over.
func openMany(ctx context.Context, addr string, s ManyScale) (*load.Load, error) {
	services := s.Linked / s.Spread * s.Services
	cfg := load.Config{Addr: addr, Method: "Get", Conns: s.Conns}
	for i := range s.Streams {
		_, authority := fleet.Service(i%services, true)
		cfg.Targets = append(cfg.Targets, load.Target{Authority: authority, Token: world.Token(i)})
	}
	streams, err := load.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(poll.Pause(ctx, aftermath), settle(ctx, streams)); err != nil {
		return nil, errors.Join(err, streams.Close())
	}
	return streams, nil
}

// measure lets the clusters change for a while.
func (m *manyChanges) measure(ctx context.Context, pid int, streams *load.Load) (Sample, error) {
	cost, err := startPeakMeter(pid, streams)
	if err != nil {
		return nil, err
	}
	if err := m.run(ctx); err != nil {
		return nil, err
	}
	took := time.Since(cost.began)
	cpu, err := cost.cpu()
	if err != nil {
		return nil, err
	}
	if err := settle(ctx, streams); err != nil {
		return nil, err
	}
	peak, err := proc.Peak(pid)
	if err != nil {
		return nil, err
	}
	delays, err := nextDelays(streams, m.seen)
	if err != nil {
		return nil, err
	}
	return Sample{
		"rate": float64(m.count) / took.Seconds(), "share": share(cpu, took), "memory": megabytes(peak),
		"p50": percentile(delays, 50), "p99": percentile(delays, 99), "most": delays[len(delays)-1],
	}, nil
}

// mostUnsent is how many changes in a hundred may come to nothing, since they were undone before they could be sent.
const mostUnsent = 5

// nextDelays returns, in order, how long after each change the last stream of its service had its next message. Changes of one
// service that follow each other closely may be in one message, or in none.
func nextDelays(streams *load.Load, changed map[string][]time.Time) ([]float64, error) {
	last, missing := map[string][]float64{}, map[string]int{}
	streams.Arrivals(func(to load.Target, at []time.Time) {
		changes := changed[to.Authority]
		delays := last[to.Authority]
		if delays == nil {
			delays = make([]float64, len(changes))
			last[to.Authority] = delays
		}
		for i, change := range changes {
			for len(at) > 0 && !at[0].After(change) {
				at = at[1:]
			}
			if len(at) == 0 {
				missing[to.Authority] = max(missing[to.Authority], len(changes)-i)
				return
			}
			delays[i] = max(delays[i], milliseconds(at[0].Sub(change)))
		}
	})
	var all []float64
	unsent := 0
	for authority, delays := range last {
		all = append(all, delays[:len(delays)-missing[authority]]...)
		unsent += missing[authority]
	}
	if n := len(all) + unsent; len(all) == 0 || 100*unsent > mostUnsent*n {
		return nil, fmt.Errorf("after %d of %d changes no message has come", unsent, n)
	}
	return sorted(all), nil
}
