package bench

import (
	"context"
	"errors"
	"time"

	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/proc"
	"isthmus/e2e/poll"
)

// aftermath is how long after the work what it costs is read.
const aftermath = time.Second

// idle measures a server without streams.
func idle(ctx context.Context, l *Lab, at subject) (Sample, error) {
	if err := poll.Pause(ctx, l.cfg.Scale.Settle); err != nil {
		return nil, err
	}
	m, err := proc.ReadMemory(at.Pid())
	if err != nil {
		return nil, err
	}
	return Sample{"rss": megabytes(m.RSS), "pss": megabytes(m.PSS)}, nil
}

// connect opens all streams at once, ends them at once and opens them again.
func connect(f family) func(context.Context, *Lab, subject) (Sample, error) {
	return func(ctx context.Context, l *Lab, at subject) (_ Sample, err error) {
		memory, err := proc.Settled(ctx, at.Pid(), l.cfg.Scale.Settle)
		if err != nil {
			return nil, err
		}
		open := func() (*load.Load, error) { return l.open(ctx, at, f, f.count(l.cfg.Scale.World)) }
		first, err := reopen(ctx, at, open, nil)
		if err != nil {
			return nil, err
		}
		held, err := proc.ReadMemory(at.Pid())
		if err != nil {
			return nil, errors.Join(err, first.streams.Close())
		}
		again, err := reopen(ctx, at, open, first.streams)
		if err != nil {
			return nil, err
		}
		streams := float64(again.streams.Streams())
		return Sample{
			"cpu": first.cpu.Seconds(), "all": milliseconds(first.took), "bytes": float64(first.streams.Bytes()) / streams,
			"memory":    perStream(memory, held, again.streams),
			"reconnect": again.cpu.Seconds(), "again": milliseconds(again.took),
		}, again.streams.Close()
	}
}

// opened is what it took to have all streams.
type opened struct {
	streams *load.Load
	cpu     time.Duration
	took    time.Duration
}

// reopen ends the streams that there were, if any, and opens all.
func reopen(ctx context.Context, at subject, open func() (*load.Load, error), before *load.Load) (s opened, err error) {
	s.cpu, err = cpuOf(ctx, at.Pid(), func() (err error) {
		began := time.Now()
		if before != nil {
			if err := before.Close(); err != nil {
				return err
			}
		}
		if s.streams, err = open(); err != nil {
			return err
		}
		s.took = latest(s.streams).Sub(began)
		return nil
	})
	if err != nil && s.streams != nil {
		err = errors.Join(err, s.streams.Close())
	}
	return s, err
}

// perStream returns the kilobytes that each stream has made a server take.
func perStream(before, with proc.Memory, streams *load.Load) float64 {
	return (float64(with.RSS) - float64(before.RSS)) / 1000 / float64(streams.Streams())
}

// latest returns when the last message came.
func latest(streams *load.Load) (last time.Time) {
	streams.Arrivals(func(_ load.Target, at []time.Time) {
		if newest := at[len(at)-1]; newest.After(last) {
			last = newest
		}
	})
	return last
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func megabytes(n uint64) float64           { return float64(n) / 1e6 }
