package main

import (
	"context"
	"fmt"
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
	drains time.Duration // how long its streams take to end
	stops  time.Duration // how long its other calls take to
	cut    chan struct{}
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
			select {
			case <-time.After(r.drains):
				r.open = 0
			case <-ctx.Done():
			}
		},
		graceful: func() {
			r.note("stop")
			select {
			case <-time.After(r.stops):
			case <-r.cut:
			}
			r.note("stopped")
		},
		abort: func() { r.note("abort"); close(r.cut) },
		pause: 5 * time.Second, spread: 10 * time.Second, log: zap.NewNop(),
	}
}

func TestEnding(t *testing.T) {
	for _, c := range []struct {
		name          string
		open          int
		drains, stops time.Duration
		want          []string
	}{
		{"no streams", 0, 0, 0, []string{"0s leave", "0s drain", "0s stop", "0s stopped"}},
		{"streams", 3, 10 * time.Second, 0, []string{"0s leave", "5s drain", "15s stop", "15s stopped"}},
		{"streams that do not end", 3, time.Hour, 0, []string{"0s leave", "5s drain", "17s stop", "17s stopped"}},
		{"other calls", 0, 0, time.Second, []string{"0s leave", "0s drain", "0s stop", "1s stopped"}},
		{"calls that do not end", 0, 0, time.Hour, []string{"0s leave", "0s drain", "0s stop", "2s abort", "2s stopped"}},
		{"nothing ends", 1, time.Hour, time.Hour, []string{"0s leave", "5s drain", "17s stop", "19s abort", "19s stopped"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &record{start: time.Now(), open: c.open, drains: c.drains, stops: c.stops, cut: make(chan struct{})}
				r.ending().run()
				if !slices.Equal(r.lines, c.want) {
					t.Errorf("%q, want %q", r.lines, c.want)
				}
			})
		})
	}
}
