package main

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

// record is a server that notes what is done to it, and when.
type record struct {
	start  time.Time
	mu     sync.Mutex // of lines
	lines  []string
	open   int
	goes   time.Duration // after this all proxies are elsewhere, and stay there; 0: they do not go
	stops  time.Duration // how long its calls take to end
	cut    chan struct{}
	closed chan struct{} // the listener is
}

func (r *record) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("%v %s", time.Since(r.start), what))
}

func (r *record) ending() *ending {
	return &ending{
		streams: func() int { return r.open },
		leave:   func() { r.note("leave") },
		drain: func(ctx context.Context) {
			r.note("drain")
			<-ctx.Done()
		},
		deserted: func(ctx context.Context, d time.Duration) bool {
			var gone <-chan time.Time
			if r.goes > 0 {
				gone = time.After(r.goes + d)
			}
			select {
			case <-gone:
				r.note("deserted")
				return true
			case <-ctx.Done():
				return false
			}
		},
		finish: func() { r.note("finish") },
		graceful: func() {
			r.note("stop")
			time.Sleep(time.Millisecond)
			close(r.closed)
			select {
			case <-time.After(r.stops):
			case <-r.cut:
			}
			r.note("stopped")
		},
		abort: func() { r.note("abort"); close(r.cut) },
		pause: 23 * time.Second, spread: 6 * time.Second, log: zap.NewNop(),
	}
}

// TestEnding: the listener, here a millisecond after the stop has begun, is closed
// before the streams that are left are ended.
func TestEnding(t *testing.T) {
	for _, c := range []struct {
		name        string
		open        int
		goes, stops time.Duration
		want        []string
	}{
		{"no streams", 0, 0, 0, []string{"0s leave", "0s stop", "1ms finish", "1ms stopped"}},
		{"streams", 3, 0, time.Millisecond, []string{"0s leave", "23s drain", "29s stop", "29.001s finish", "29.002s stopped"}},
		{"all go while it drains", 3, 25 * time.Second, time.Millisecond,
			[]string{"0s leave", "23s drain", "26s deserted", "26s stop", "26.001s finish", "26.002s stopped"}},
		{"all go before that", 3, 7 * time.Second, time.Millisecond,
			[]string{"0s leave", "8s deserted", "8s stop", "8.001s finish", "8.002s stopped"}},
		{"the last goes too late", 3, 28500 * time.Millisecond, time.Millisecond,
			[]string{"0s leave", "23s drain", "29s stop", "29.001s finish", "29.002s stopped"}},
		{"other calls", 0, 0, 200 * time.Millisecond, []string{"0s leave", "0s stop", "1ms finish", "201ms stopped"}},
		{"calls that do not end", 0, 0, time.Hour, []string{"0s leave", "0s stop", "1ms finish", "300ms abort", "300ms stopped"}},
		{"nothing ends", 1, 0, time.Hour, []string{"0s leave", "23s drain", "29s stop", "29.001s finish", "29.3s abort", "29.3s stopped"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &record{start: time.Now(), open: c.open, goes: c.goes, stops: c.stops, cut: make(chan struct{}), closed: make(chan struct{})}
				r.ending().run(r.closed)
				slices.Sort(r.lines[len(r.lines)-2:]) // what happens at the same time has no order
				if !slices.Equal(r.lines, c.want) {
					t.Errorf("%q, want %q", r.lines, c.want)
				}
			})
		})
	}
}

// TestEndingAtOnce: with both flags 0 nothing is waited for, and nobody is sent
// away before the listener is closed.
func TestEndingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &record{start: time.Now(), open: 3, stops: time.Second / 4, cut: make(chan struct{}), closed: make(chan struct{})}
		e := r.ending()
		e.pause, e.spread = 0, 0
		e.run(r.closed)
		want := []string{"0s leave", "0s stop", "1ms finish", "251ms stopped"}
		if r.lines = slices.DeleteFunc(r.lines, func(l string) bool { return l == "0s drain" }); !slices.Equal(r.lines, want) {
			t.Errorf("%q, want %q", r.lines, want)
		}
	})
}

// TestEndingWithinTheGrace: the default flags and what follows them fit into
// Kubernetes' default grace.
func TestEndingWithinTheGrace(t *testing.T) {
	o := parsed(t)
	if worst := o.delay + o.drain + stopLimit + lastLimit; worst >= 30*time.Second {
		t.Errorf("the end may take %v", worst)
	}
}

// TestDoor: it says that it is closed when it is, also if it is closed twice.
func TestDoor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(l)
	select {
	case <-d.closed:
		t.Fatal("closed")
	default:
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	<-d.closed
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("somebody listens still")
	}
	if err := d.Close(); err == nil {
		t.Error("closed twice without an error")
	}
}
