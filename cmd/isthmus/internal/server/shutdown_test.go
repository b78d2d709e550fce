package server

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// record is a server that records the calls of a shutdown and their times.
type record struct {
	start    time.Time
	mu       sync.Mutex // of lines
	lines    []string
	open     int
	goes     time.Duration // time until all proxies use other replicas; if zero, they never do
	stops    time.Duration // how long its calls take
	aborted  chan struct{}
	listener *trackingListener
}

func newRecord(open int) *record {
	return &record{
		start:    time.Now(),
		open:     open,
		aborted:  make(chan struct{}),
		listener: newTrackingListener(noListener{}),
	}
}

// noListener is a listener whose Close does nothing.
type noListener struct{ net.Listener }

func (noListener) Close() error { return nil }

func (r *record) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("%v %s", time.Since(r.start), what))
}

func (r *record) shutdown() *shutdown {
	return &shutdown{
		streams:        func() int { return r.open },
		markNotServing: func() { r.note("markNotServing") },
		drain: func(ctx context.Context) {
			r.note("drain")
			<-ctx.Done()
		},
		waitUnused: func(ctx context.Context, d time.Duration) bool {
			var gone <-chan time.Time
			if r.goes > 0 {
				gone = time.After(r.goes + d)
			}
			select {
			case <-gone:
				r.note("waitUnused")
				return true
			case <-ctx.Done():
				return false
			}
		},
		finish: func() { r.note("finish") },
		graceful: func() {
			r.note("stop")
			time.Sleep(time.Millisecond)
			r.listener.Close()
			select {
			case <-time.After(r.stops):
			case <-r.aborted:
			}
			r.note("stopped")
		},
		abort: func() { r.note("abort"); close(r.aborted) },
		delay: 23 * time.Second, spread: 6 * time.Second, log: zap.NewNop(),
	}
}

// TestShutdown checks that the listener is closed before the remaining streams end. Without
// --drain, all remaining streams end together. With both flags 0, shutdown waits for nothing.
func TestShutdown(t *testing.T) {
	for _, c := range []struct {
		name        string
		open        int
		goes, stops time.Duration
		want        []string
		change      func(*shutdown)
	}{
		{"no streams", 0, 0, 0, []string{"0s markNotServing", "0s stop", "1ms finish", "1ms stopped"}, nil},
		{
			"streams",
			3,
			0,
			time.Millisecond,
			[]string{"0s markNotServing", "23s drain", "29s stop", "29.001s finish", "29.002s stopped"},
			nil,
		},
		{"all go while it drains", 3, 25 * time.Second, time.Millisecond,
			[]string{
				"0s markNotServing",
				"23s drain",
				"26s waitUnused",
				"26s stop",
				"26.001s finish",
				"26.002s stopped",
			}, nil},
		{"all go before that", 3, 7 * time.Second, time.Millisecond,
			[]string{"0s markNotServing", "8s waitUnused", "8s stop", "8.001s finish", "8.002s stopped"}, nil},
		{"the last goes too late", 3, 28500 * time.Millisecond, time.Millisecond,
			[]string{"0s markNotServing", "23s drain", "29s stop", "29.001s finish", "29.002s stopped"}, nil},
		{
			"other calls",
			0,
			0,
			200 * time.Millisecond,
			[]string{"0s markNotServing", "0s stop", "1ms finish", "201ms stopped"},
			nil,
		},
		{
			"calls that do not end",
			0,
			0,
			time.Hour,
			[]string{"0s markNotServing", "0s stop", "1ms finish", "300ms abort", "300ms stopped"},
			nil,
		},
		{
			"nothing ends",
			1,
			0,
			time.Hour,
			[]string{"0s markNotServing", "23s drain", "29s stop", "29.001s finish", "29.3s abort", "29.3s stopped"},
			nil,
		},
		{
			"no streams, in a Pod",
			0,
			0,
			0,
			[]string{"0s markNotServing", "23s drain", "29s stop", "29.001s finish", "29.001s stopped"},
			func(s *shutdown) { s.always = true },
		},
		{
			"all go, in a Pod",
			3,
			7 * time.Second,
			0,
			[]string{"0s markNotServing", "23s drain", "29s stop", "29.001s finish", "29.001s stopped"},
			func(s *shutdown) { s.always = true },
		},
		{
			"neither delay nor drain",
			3,
			0,
			time.Second / 4,
			[]string{"0s markNotServing", "0s stop", "1ms finish", "251ms stopped"},
			func(s *shutdown) { s.delay, s.spread = 0, 0 },
		},
		{
			"no drain",
			3,
			0,
			time.Second / 4,
			[]string{"0s markNotServing", "23s stop", "23.001s finish", "23.251s stopped"},
			func(s *shutdown) { s.spread = 0 },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecord(c.open)
				r.goes, r.stops = c.goes, c.stops
				down := r.shutdown()
				if c.change != nil {
					c.change(down)
				}
				down.run(r.listener)
				slices.Sort(r.lines[len(r.lines)-2:]) // simultaneous calls have no order
				if !slices.Equal(r.lines, c.want) {
					t.Errorf("%q, want %q", r.lines, c.want)
				}
			})
		})
	}
}

// TestShutdownWithinTheGrace checks that the default flags and the limits of the remaining steps
// fit in Kubernetes' default grace period. End-to-end tests of a handover check a whole process.
func TestShutdownWithinTheGrace(t *testing.T) {
	o := flagsOf(t)
	if worst := o.delay + o.drain + stopLimit + lastLimit; worst >= 30*time.Second {
		t.Errorf("shutdown may take %v", worst)
	}
}

// TestInPod checks that a replica detects a Pod by a variable that Kubernetes sets in every
// container.
func TestInPod(t *testing.T) {
	for host, want := range map[string]bool{"": false, "10.0.0.1": true} {
		t.Setenv(inPodVariable, host)
		if s := newShutdown(new(options), nil, nil, zap.NewNop()); s.always != want {
			t.Errorf("%q: %t", host, s.always)
		}
	}
}
