package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/floor"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/poll"
)

// SpillScale is how much spills.
type SpillScale struct {
	Services  int           // federated ones, each of three clusters
	Endpoints int           // of each in a cluster
	Pods      int           // in each cluster, several Services having the same
	Over      time.Duration // in which all Services are scaled to nothing, one after the other, and then back
	After     time.Duration // return-after
	Return    time.Duration // return-over
}

// spill opens all streams to services that prefer the local cluster, scales that to nothing, service after service, and back.
// Then the floor sends what one stream of each service was sent, when it was. The clusters are of package fleet: 150,000
// endpoints would make those of the other trials too large.
func spill(ctx context.Context, l *Lab) (samples map[Kind]Sample, err error) {
	of, played, err := l.spillGateway(ctx)
	if err != nil {
		return nil, fmt.Errorf("the gateway: %w", err)
	}
	bare, err := l.spillFloor(ctx, played)
	if err != nil {
		return nil, fmt.Errorf("the floor: %w", err)
	}
	return map[Kind]Sample{Gateway: of, Floor: bare}, nil
}

// spillGateway makes the trial on the gateway.
func (l *Lab) spillGateway(ctx context.Context) (_ Sample, played tape, err error) {
	s := l.cfg.Scale.Spill
	f, err := follow(ctx, l.cfg, fleet.Config{Linked: 2, Services: s.Services, Slices: 1, Endpoints: s.Endpoints, Pods: s.Pods, Joined: true, Annotations: map[string]string{
		"isthmus.io/prefer": "local, any", "isthmus.io/return-after": s.After.String(), "isthmus.io/return-over": s.Return.String(),
	}})
	if err != nil {
		return nil, played, err
	}
	defer func() { err = errors.Join(err, f.end(ctx)) }()
	m, err := l.openSpilling(ctx, f.gateway.Addr(), f.gateway.Pid())
	if err != nil {
		return nil, played, err
	}
	defer func() { err = errors.Join(err, m.streams.Close()) }()

	gone, err := m.scale(ctx, s, f.fleet, false)
	if err != nil {
		return nil, played, err
	}
	spilled := m.counts()
	if err := m.readMemory(); err != nil {
		return nil, played, err
	}
	back, err := m.scale(ctx, s, f.fleet, true)
	if err != nil {
		return nil, played, err
	}
	if err := poll.Pause(ctx, s.After+s.Return); err != nil {
		return nil, played, err
	}
	sample, err := m.end(ctx)
	if err != nil {
		return nil, played, err
	}
	sample.delays("spill", m.delays(gone, func(stream int, at []time.Time) time.Time { return at[spilled[stream]-1] }))
	sample.delays("back", m.delays(back, func(stream int, at []time.Time) time.Time { return at[spilled[stream]] }))
	returned := m.delays(back, func(_ int, at []time.Time) time.Time { return at[len(at)-1] })
	for i := range returned {
		returned[i] -= milliseconds(s.After + s.Return)
	}
	sample.delays("return", returned)
	return sample, m.tape(), nil
}

// spillFloor sends what has been recorded, and when.
func (l *Lab) spillFloor(ctx context.Context, t tape) (_ Sample, err error) {
	recording := filepath.Join(l.cfg.Dir, "spill.json")
	if err := t.recording.Write(recording); err != nil {
		return nil, err
	}
	p, err := floor.Start(ctx, append(l.cfg.Floor[:len(l.cfg.Floor):len(l.cfg.Floor)], recording)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	m, err := l.openSpilling(ctx, p.Addr(), p.Pid())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.streams.Close()) }()
	ordered := map[string][]time.Time{}
	for _, step := range t.steps {
		if err := poll.Pause(ctx, time.Until(m.began.Add(step.after))); err != nil {
			return nil, err
		}
		if err := p.Step("Get", step.authority, step.number); err != nil {
			return nil, err
		}
		ordered[step.authority] = append(ordered[step.authority], time.Now())
		if m.spilled.RSS == 0 && step.after > l.cfg.Scale.Spill.Over {
			if err := m.readMemory(); err != nil {
				return nil, err
			}
		}
	}
	sample, err := m.end(ctx)
	if err != nil {
		return nil, err
	}
	var delays []float64
	m.streams.Arrivals(func(to load.Target, at []time.Time) {
		for i, ordered := range ordered[to.Authority] {
			delays = append(delays, milliseconds(at[1+i].Sub(ordered)))
		}
	})
	for _, key := range []string{"spill", "back", "return"} {
		sample.delays(key, sorted(delays)) // of all messages
	}
	return sample, nil
}
