package bench

import (
	"context"
	"sync"
	"time"

	"isthmus/e2e/bench/load"
	"isthmus/e2e/poll"
)

// flipEvery is the time from one flip to the next.
const flipEvery = 500 * time.Millisecond

// fanOut opens all streams to one service, and flips one of its endpoints again and again. What a stream takes is measured
// then: its goroutine's stack grows with what it has done.
func fanOut(s Scale, name string, f family) Trial {
	return Trial{
		Name: name, kinds: bothKinds, repeats: 1, families: []family{f},
		Figures: []Figure{
			{Key: "cpu", Label: "CPU a delivered update", Unit: "µs", MaxRatio: atFloor},
			{Key: "last", Label: "the last stream has a change", Unit: "ms", MaxRatio: atFloor},
			{Key: "memory", Label: "memory a stream, after the changes", Unit: "kB", MaxRatio: 1},
		},
		do: func(r *run) {
			at := r.start()
			before := at.settled()
			streams := at.open(r.spread(f, 1))
			r.pause(aftermath)
			m := at.meter(streams)
			var lasts []float64
			for range s.Flips {
				r.pause(flipEvery)
				messages := streams.Received() / streams.Streams() // that each has had
				changed := must(at.change(f.of(0)))
				check(streams.Await(r.ctx, messages+1))
				lasts = append(lasts, milliseconds(latest(streams).Sub(changed)))
			}
			r.pause(flipEvery)
			cpu, updates := m.spent(), m.expect(s.Flips*streams.Streams())
			r.set("cpu", microseconds(cpu)/updates)
			r.set("last", median(lasts))
			r.set("memory", perStream(at.settled()-before, streams))
			r.set("bytes", m.bytes()/updates)
		},
	}
}

// churn opens all streams, spread over many services, and changes these in turn at a fixed rate. The floor, which follows
// no clusters, steps when they are changed.
func churn(s Scale) Trial {
	f := appFederated
	return Trial{
		Name: "churn", kinds: bothKinds, repeats: 1, families: []family{appLocal, f},
		Figures: []Figure{
			{Key: "rate", Label: "changes a second"},
			{Key: "cpu", Label: "CPU a delivered update", Unit: "µs"}, // no target: here the gateway reads a change for every ten updates
			{Key: "p50", Label: "propagation, median", Unit: "ms"},
			{Key: "p99", Label: "propagation, 99th percentile", Unit: "ms", MaxRatio: 10},
		},
		do: func(r *run) {
			at := r.start()
			at.writes = true
			streams := at.open(r.spread(f, s.World.App))
			r.pause(aftermath)
			m := at.meter(streams)
			var list []service
			for i := range s.Rounds * s.World.App {
				list = append(list, f.of(i%s.World.App))
			}
			written := at.changeAll(list, s.Rate)
			took := time.Since(m.began)
			first := max(1, r.first[f.name])
			check(streams.Await(r.ctx, first+s.Rounds))
			r.pause(aftermath)
			cpu, updates := m.spent(), m.expect(s.Rounds*streams.Streams())
			delays := propagation(streams, written, first)
			r.set("rate", float64(len(list))/took.Seconds())
			r.set("cpu", microseconds(cpu)/updates)
			r.set("bytes", m.bytes()/updates)
			r.set("p50", percentile(delays, 50))
			r.set("p99", percentile(delays, 99))
		},
	}
}

// writers is how many changes may be under way at a time.
const writers = 16

// changeAll makes the changes of a list, so many a second or as evenly over time as the API servers take them, and returns for
// each authority when they were made. A service is always changed by the same writer: it can't be changed by two at a time,
// however long one takes.
func (s *server) changeAll(list []service, rate int) map[string][]time.Time {
	ctx, cancel := context.WithCancelCause(s.ctx)
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
			for what := range due[i] {
				changed, err := s.change(what)
				if err != nil {
					cancel(err)
					continue
				}
				mu.Lock()
				written[what.authority] = append(written[what.authority], changed)
				mu.Unlock()
			}
		})
	}
	began, every, of := time.Now(), time.Second/time.Duration(rate), map[service]int{} // of: the writer of each
	for i, what := range list {
		if poll.Pause(ctx, time.Until(began.Add(time.Duration(i)*every))) != nil {
			break
		}
		if _, ok := of[what]; !ok {
			of[what] = len(of) % writers
		}
		due[of[what]] <- what
	}
	for _, d := range due {
		close(d)
	}
	all.Wait()
	check(context.Cause(ctx))
	return written
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
