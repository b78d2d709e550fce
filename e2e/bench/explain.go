package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/world"
	"isthmus/e2e/gateway"
	"isthmus/e2e/poll"
)

// ExplainScale is how much there is while a service is explained.
type ExplainScale struct {
	Services  int // federated ones, each of two clusters
	Endpoints int // of each in a cluster
	Large     int // slices, of a hundred endpoints, of one more in a cluster: it is explained
	Rate      int // changes a second, of all Services in turn
	Changes   int // in each block, of each Service an even number; besides, the large Service changes twice a second
	Blocks    int // with explanations; there is one more without
}

// askers ask for explanations. The gateway makes one at a time, so that two wait.
const askers = 3

// explain lets services change under open streams, block after block, while one of 10,000 endpoints is explained again and
// again, and while it is not. The floor is the same gateway while it explains nothing. The blocks take turns, so that what
// else the machine does is in both: what those without explanations differ by is noise, so the highest of them counts, and
// of those with explanations the median.
func explain(ctx context.Context, l *Lab) (samples map[Kind]Sample, err error) {
	s := l.cfg.Scale.Explain
	what := fleet.Config{Linked: 1, Services: s.Services, Slices: 1, Endpoints: s.Endpoints, Large: s.Large, Joined: true}
	f, err := follow(ctx, l.cfg, what, "-enable-pprof")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.end(ctx)) }()
	x := &explaining{followed: f, scale: s}
	if x.streams, err = l.openExplained(ctx, f.gateway, s); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.streams.Close()) }()
	return x.measure(ctx)
}

// openExplained opens all streams, spread over all Services, but for one of each connection, which is of the large one.
func (l *Lab) openExplained(ctx context.Context, g *gateway.Gateway, s ExplainScale) (*load.Load, error) {
	conns := l.cfg.Scale.Conns
	cfg := load.Config{Addr: g.Addr(), Method: "Get", Conns: conns}
	for i := range l.cfg.Scale.Streams {
		service := i % s.Services
		if i < conns {
			service = s.Services
		}
		_, authority := fleet.Service(service, true)
		cfg.Targets = append(cfg.Targets, load.Target{Authority: authority, Token: world.Token(i)})
	}
	return load.Open(ctx, cfg)
}

// changesUnder flips an endpoint of each Service in turn, and twice a second one of the large Service, and returns when the
// API server had taken each. The others change so many times as often as the scale has it, in the same time.
func (x *explaining) changesUnder(ctx context.Context, times int) (map[string][]time.Time, error) {
	written := map[string][]time.Time{}
	flip := func(service int) error {
		name, authority := fleet.Service(service, true)
		if err := x.fleet.Flip(1, name); err != nil {
			return err
		}
		written[authority] = append(written[authority], time.Now())
		return nil
	}
	began, every := time.Now(), time.Second/time.Duration(times*x.scale.Rate)
	for i := range times * x.scale.Changes {
		if err := poll.Pause(ctx, time.Until(began.Add(time.Duration(i)*every))); err != nil {
			return nil, err
		}
		service := x.next % x.scale.Services
		x.next++
		if err := flip(service); err != nil {
			return nil, err
		}
		if i%(times*x.scale.Rate/2) != 0 {
			continue
		}
		if err := flip(x.scale.Services); err != nil {
			return nil, err
		}
	}
	return written, nil
}

// lastDelays returns, in order, how long each change took until the last stream of its service had it: the changes are the
// messages of each after the first so many.
func lastDelays(streams *load.Load, written map[string][]time.Time, had map[string]int) ([]float64, error) {
	last := map[string][]float64{}
	var wrong error
	streams.Arrivals(func(to load.Target, at []time.Time) {
		changed := written[to.Authority]
		if at = at[had[to.Authority]:]; len(at) != len(changed) {
			wrong = fmt.Errorf("%s: %d changes, and %d messages: can't match them", to.Authority, len(changed), len(at))
			return
		}
		delays := last[to.Authority]
		if delays == nil {
			delays = make([]float64, len(changed))
			last[to.Authority] = delays
		}
		for i := range changed {
			if d := milliseconds(at[i].Sub(changed[i])); d > delays[i] {
				delays[i] = d
			}
		}
	})
	var all []float64
	for _, delays := range last {
		all = append(all, delays...)
	}
	return sorted(all), wrong
}
