package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"isthmus/e2e/bench/load"
	"isthmus/e2e/poll"
)

// flipEvery is the time from one flip to the next.
const flipEvery = 500 * time.Millisecond

// fanOut opens all streams to one service, and flips one of its endpoints again and again.
func fanOut(f family) func(context.Context, *Lab, subject) (Sample, error) {
	return func(ctx context.Context, l *Lab, at subject) (_ Sample, err error) {
		m, err := l.meter(ctx, at, f, 1)
		if err != nil {
			return nil, err
		}
		streams := m.streams
		defer func() { err = errors.Join(err, streams.Close()) }()
		flips := l.cfg.Scale.Flips
		var lasts, medians []float64
		tick := time.NewTicker(flipEvery)
		defer tick.Stop()
		for range flips {
			<-tick.C
			d, err := l.flip(ctx, at, streams, f.of(0))
			if err != nil {
				return nil, err
			}
			lasts, medians = append(lasts, d[len(d)-1]), append(medians, percentile(d, 50))
		}
		if err := poll.Pause(ctx, flipEvery); err != nil {
			return nil, err
		}
		cpu, err := m.cpu()
		if err != nil {
			return nil, err
		}
		updates := m.messages()
		if want := flips * streams.Streams(); updates != want {
			return nil, fmt.Errorf("%d updates for %d flips, not %d", updates, flips, want)
		}
		return Sample{
			"cpu": microseconds(cpu) / float64(updates), "last": median(lasts), "p50": median(medians),
			"bytes": m.bytes() / float64(updates),
		}, nil
	}
}

// flip changes one endpoint of the service that all streams are subscribed to, and returns how long after that each had
// the update, in order.
func (l *Lab) flip(ctx context.Context, at subject, streams *load.Load, s service) ([]float64, error) {
	n := streams.Received() / streams.Streams() // messages that each has had
	changed, err := at.change(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := streams.Await(ctx, n+1); err != nil {
		return nil, err
	}
	var delays []float64
	streams.Arrivals(func(_ load.Target, at []time.Time) { delays = append(delays, milliseconds(at[n].Sub(changed))) })
	return sorted(delays), nil
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
