package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"isthmus/e2e/bench/load"
	"isthmus/e2e/poll"
)

// writers is how many changes may be under way at a time.
const writers = 16

// churn opens all streams, spread over many services, and changes these in turn at a fixed rate. The floor, which follows
// no clusters, steps when they are changed.
func churn(ctx context.Context, l *Lab, at subject) (_ Sample, err error) {
	if b, ok := at.(bare); ok {
		at = beside{b, l.world}
	}
	f, scale := appFederated, l.cfg.Scale
	m, err := l.meter(ctx, at, f, scale.World.App)
	if err != nil {
		return nil, err
	}
	streams := m.streams
	defer func() { err = errors.Join(err, streams.Close()) }()
	first := max(1, l.first[f.name])
	var list []service
	for i := range scale.Rounds * scale.World.App {
		list = append(list, f.of(i%scale.World.App))
	}
	plain, err := watchPlainly(ctx, l.world)
	if err != nil {
		return nil, err
	}
	defer plain.stop()
	written, err := changes(ctx, at, list, scale.Rate)
	if err != nil {
		return nil, err
	}
	took := time.Since(m.began)
	if err := streams.Await(ctx, first+scale.Rounds); err != nil {
		return nil, err
	}
	if err := poll.Pause(ctx, aftermath); err != nil {
		return nil, err
	}
	cpu, err := m.cpu()
	if err != nil {
		return nil, err
	}
	updates := m.messages()
	if want := scale.Rounds * streams.Streams(); updates != want {
		return nil, fmt.Errorf("%d updates, not %d: can't match updates with changes", updates, want)
	}
	delays := propagation(streams, written, first)
	watched, err := plain.delays(list[:scale.World.App], written)
	if err != nil {
		return nil, err
	}
	return Sample{
		"rate": float64(scale.Rounds*scale.World.App) / took.Seconds(),
		"cpu":  microseconds(cpu) / float64(updates), "share": share(cpu, took),
		"bytes": m.bytes() / float64(updates),
		"p50":   percentile(delays, 50), "p99": percentile(delays, 99), "most": delays[len(delays)-1],
		"watch p99": percentile(watched, 99),
	}, nil
}

// changes makes the changes of a list, so many a second or as evenly over time as the API servers take them, and returns for
// each authority when they were made. A service is always changed by the same writer: it can't be changed by two at a time,
// however long one takes.
func changes(ctx context.Context, at subject, list []service, rate int) (map[string][]time.Time, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		due     [writers]chan service
		mu      sync.Mutex
		written = map[string][]time.Time{}
		all     sync.WaitGroup
	)
	for i := range due {
		due[i] = make(chan service, 16) // a slow one delays no other
		all.Go(func() {
			for s := range due[i] {
				changed, err := at.change(ctx, s)
				if err != nil {
					cancel(err)
					continue
				}
				mu.Lock()
				written[s.authority] = append(written[s.authority], changed)
				mu.Unlock()
			}
		})
	}
	began, every, of := time.Now(), time.Second/time.Duration(rate), map[service]int{} // of: the writer of each
	for i, s := range list {
		if poll.Pause(ctx, time.Until(began.Add(time.Duration(i)*every))) != nil {
			break
		}
		if _, ok := of[s]; !ok {
			of[s] = len(of) % writers
		}
		due[of[s]] <- s
	}
	for _, d := range due {
		close(d)
	}
	all.Wait()
	return written, context.Cause(ctx)
}

// propagation returns, in order, how long each change took to each stream: the changes are a stream's messages after the
// first ones.
func propagation(streams *load.Load, written map[string][]time.Time, first int) (delays []float64) {
	streams.Arrivals(func(t load.Target, at []time.Time) {
		for i, changed := range written[t.Authority] {
			delays = append(delays, milliseconds(at[first+i].Sub(changed)))
		}
	})
	return sorted(delays)
}
