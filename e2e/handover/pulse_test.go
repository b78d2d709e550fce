package handover

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	beat     = 10 * time.Millisecond
	arrested = 100 * time.Millisecond // between two beats: the machine did not let this process run
)

// pulse knows when this process could not run.
type pulse struct {
	mu     sync.Mutex
	last   time.Time
	pauses []span
}

type span struct{ from, to time.Time }

// run beats until ctx ends.
func (p *pulse) run(ctx context.Context) {
	p.note()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.note()
		}
	}
}

func (p *pulse) note() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.last.IsZero() && now.Sub(p.last) > arrested {
		p.pauses = append(p.pauses, span{p.last, now})
	}
	p.last = now
}

// between returns how much time went by while the process ran.
func (p *pulse) between(from, to time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := to.Sub(from)
	for _, s := range p.pauses {
		if begin, end := later(s.from, from), earlier(s.to, to); end.After(begin) {
			took -= end.Sub(begin)
		}
	}
	return took
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		p, start := &pulse{}, time.Now()
		var beating sync.WaitGroup
		beating.Go(func() { p.run(ctx) })
		time.Sleep(time.Second)
		stop()
		beating.Wait()
		time.Sleep(300 * time.Millisecond) // 1 s to 1.3 s: no beat
		p.note()
		time.Sleep(arrested) // as long as it may be
		p.note()
		at := func(d time.Duration) time.Time { return start.Add(d * time.Millisecond) }
		for _, c := range []struct{ from, to, want time.Duration }{
			{0, 1350, 1050}, {0, 1000, 1000}, {1000, 1300, 0}, {1100, 1200, 0}, {900, 1100, 100}, {1200, 1350, 50}, {1310, 1340, 30},
		} {
			if got := p.between(at(c.from), at(c.to)); got != c.want*time.Millisecond {
				t.Errorf("from %v to %v: %v, want %v", c.from, c.to, got, c.want)
			}
		}
	})
}
