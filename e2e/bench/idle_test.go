package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestAwaitIdle: other work that does not end is logged.
func TestAwaitIdle(t *testing.T) {
	var stop atomic.Bool
	var work sync.WaitGroup
	for range runtime.NumCPU() {
		work.Go(func() {
			for !stop.Load() {
			}
		})
	}
	defer work.Wait()
	defer stop.Store(true)
	var log []string
	l := &Lab{cfg: Config{
		Scale: Scale{Idle: 300 * time.Millisecond},
		Log:   func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) },
	}}
	if err := l.awaitIdle(t.Context(), Trial{Name: "storm"}); err != nil {
		t.Fatal(err)
	}
	if len(log) != 1 || !strings.HasPrefix(log[0], "storm: other work has ") {
		t.Errorf("logged %q", log)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.awaitIdle(ctx, Trial{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}
