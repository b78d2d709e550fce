package grpcapi

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/grpcapi/internal/wiretest"
)

// TestWatchdogIsExact, whichever send its timer was started by.
func TestWatchdogIsExact(t *testing.T) {
	for name, tc := range map[string]struct {
		idle []time.Duration // between sends that took no time
		want time.Duration   // from the beginning to the bark, with a send that never ends
	}{
		"the first send":           {nil, 60 * time.Second},
		"a later send":             {[]time.Duration{10 * time.Second, 20 * time.Second}, 90 * time.Second},
		"as the timer fires":       {[]time.Duration{60 * time.Second}, 120 * time.Second},
		"after the timer is gone":  {[]time.Duration{100 * time.Second}, 160 * time.Second},
		"after two of its periods": {[]time.Duration{70 * time.Second, 70 * time.Second, time.Second}, 201 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				barked := make(chan time.Duration, 2)
				w := watchdog{limit: time.Minute, epoch: start.Add(-time.Second), bark: func() { barked <- time.Since(start) }}
				defer w.stop()
				for _, d := range tc.idle {
					w.begin(time.Now())
					w.done()
					time.Sleep(d)
				}
				w.begin(time.Now())
				time.Sleep(time.Hour)
				if len(barked) != 1 {
					t.Fatalf("%d barks", len(barked))
				}
				if at := <-barked; at != tc.want {
					t.Errorf("after %v, want %v", at, tc.want)
				}
			})
		})
	}
}

// TestWatchdogMissesNothing: sends begin just as the timer fires, over and over,
// until one gets stuck.
func TestWatchdogMissesNothing(t *testing.T) {
	for range 50 {
		var stuck atomic.Bool
		var noticed atomic.Int32
		w := watchdog{limit: 50 * time.Microsecond, epoch: time.Now()}
		w.bark = func() {
			if stuck.Load() {
				noticed.Add(1)
				return
			}
			w.armed.Store(false) // the machine was slow: that send was not stuck
		}
		for range 1000 {
			w.begin(time.Now())
			w.done()
		}
		stuck.Store(true)
		w.begin(time.Now())
		wiretest.Until(t, "the send that is stuck is noticed", func() bool { return noticed.Load() > 0 })
		w.stop()
	}
}
