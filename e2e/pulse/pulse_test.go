package pulse

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		p, start := &Pulse{}, time.Now()
		var beating sync.WaitGroup
		beating.Go(func() { p.Run(ctx) })
		time.Sleep(time.Second)
		stop()
		beating.Wait()
		if got := p.Longest(); got > beat {
			t.Errorf("%v between two beats", got)
		}
		time.Sleep(Pause / 2)
		if got := (&Pulse{}).Between(start, time.Now()); got != time.Since(start) {
			t.Errorf("%v between two moments for a Pulse that has not run", got)
		}
		time.Sleep(300*time.Millisecond - Pause/2) // 1 s to 1.3 s: no beat
		if got := p.Longest(); got != 300*time.Millisecond {
			t.Errorf("%v between two beats, want 300ms", got)
		}
		time.Sleep(Pause) // as long as it may be
		p.note()
		time.Sleep(200 * time.Millisecond) // 1.4 s to 1.6 s, which Between itself must notice
		at := func(d time.Duration) time.Time { return start.Add(d * time.Millisecond) }
		for _, c := range []struct{ from, to, want time.Duration }{
			{0, 1350, 1050}, {0, 1000, 1000}, {1000, 1300, 0}, {1100, 1200, 0}, {900, 1100, 100}, {1200, 1350, 50}, {1310, 1340, 30}, {1350, 1600, 50},
		} {
			if got := p.Between(at(c.from), at(c.to)); got != c.want*time.Millisecond {
				t.Errorf("from %v to %v: %v, want %v", c.from, c.to, got, c.want)
			}
		}
	})
}
