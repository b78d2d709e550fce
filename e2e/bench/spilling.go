package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/floor"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/proc"
	"isthmus/e2e/bench/world"
	"isthmus/e2e/poll"
)

// spilling is the trial while it runs.
type spilling struct {
	*meter
	before  proc.Memory // without streams
	opened  proc.Memory // with all of them
	spilled proc.Memory // when all have spilled
}

// openSpilling opens all streams, spread over all services. The messages of one stream of each are kept.
func (l *Lab) openSpilling(ctx context.Context, addr string, pid int) (_ *spilling, err error) {
	m := &spilling{}
	if m.before, err = proc.Settled(ctx, pid, l.cfg.Scale.Settle); err != nil {
		return nil, err
	}
	services := l.cfg.Scale.Spill.Services
	cfg := load.Config{Addr: addr, Method: "Get", Conns: l.cfg.Scale.Conns}
	for i := range max(services, l.cfg.Scale.Streams) {
		_, authority := fleet.Service(i%services, true)
		cfg.Targets = append(cfg.Targets, load.Target{Authority: authority, Token: world.Token(i), Keep: i < services})
	}
	streams, err := load.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			streams.Close()
		}
	}()
	if err := poll.Pause(ctx, aftermath); err != nil {
		return nil, err
	}
	if n := streams.Received(); n != streams.Streams() {
		return nil, fmt.Errorf("%d streams began with %d messages, not one each", streams.Streams(), n)
	}
	if m.opened, err = proc.ReadMemory(pid); err != nil {
		return nil, err
	}
	m.meter, err = startMeter(pid, streams)
	return m, err
}

// scale makes all endpoints that Services have in the local cluster ready, or none, service after service, and returns when the API
// server had taken each, and all streams what follows at once.
func (m *spilling) scale(ctx context.Context, s SpillScale, f *fleet.Fleet, ready bool) (taken map[string]time.Time, err error) {
	taken = map[string]time.Time{}
	began, every := time.Now(), s.Over/time.Duration(s.Services)
	for i := range s.Services {
		if err := poll.Pause(ctx, time.Until(began.Add(time.Duration(i)*every))); err != nil {
			return nil, err
		}
		service, authority := fleet.Service(i, true)
		if err := f.Scale(0, service, ready); err != nil {
			return nil, err
		}
		taken[authority] = time.Now()
	}
	if !ready {
		err = settle(ctx, m.streams)
	}
	return taken, err
}

// counts returns how many messages each stream has had.
func (m *spilling) counts() (list []int) {
	m.streams.Arrivals(func(_ load.Target, at []time.Time) { list = append(list, len(at)) })
	return list
}

// delays returns, in order, how long after a change of its service each stream had a message.
func (m *spilling) delays(since map[string]time.Time, message func(stream int, at []time.Time) time.Time) (list []float64) {
	i := 0
	m.streams.Arrivals(func(to load.Target, at []time.Time) {
		list = append(list, milliseconds(message(i, at).Sub(since[to.Authority])))
		i++
	})
	return sorted(list)
}

func (s Sample) delays(key string, sorted []float64) {
	s[key+" p50"], s[key+" p99"], s[key] = percentile(sorted, 50), percentile(sorted, 99), sorted[len(sorted)-1]
}

func (m *spilling) readMemory() (err error) {
	m.spilled, err = proc.ReadMemory(m.pid)
	return err
}

// end waits until nothing comes any more, and returns what it all has cost.
func (m *spilling) end(ctx context.Context) (Sample, error) {
	if err := settle(ctx, m.streams); err != nil {
		return nil, err
	}
	cpu, err := m.cpu()
	if err != nil {
		return nil, err
	}
	messages := float64(m.messages())
	return Sample{
		"all": cpu.Seconds(), "cpu": microseconds(cpu) / messages, "messages": messages / float64(m.streams.Streams()),
		"bytes":  m.bytes() / messages,
		"memory": perStream(m.before, m.opened, m.streams), "spilled": perStream(m.before, m.spilled, m.streams),
	}, nil
}

// tape is what one stream of each service has been sent, and when.
type tape struct {
	recording floor.Recording
	steps     []step // in order of time
}

// step is a message of a service, so long after the trial has begun.
type step struct {
	after     time.Duration
	authority string
	number    int
}

// tape returns what has been kept.
func (m *spilling) tape() tape {
	t := tape{recording: floor.Recording{Get: map[string]floor.Answer{}}}
	m.streams.Messages(func(to load.Target, messages [][]byte) {
		if to.Keep {
			t.recording.Get[to.Authority] = floor.Answer{First: messages[:1], Steps: messages[1:]}
		}
	})
	m.streams.Arrivals(func(to load.Target, at []time.Time) {
		if to.Keep {
			for i, at := range at[1:] {
				t.steps = append(t.steps, step{at.Sub(m.began), to.Authority, i})
			}
		}
	})
	slices.SortStableFunc(t.steps, func(a, b step) int { return cmp.Compare(a.after, b.after) })
	return t
}
