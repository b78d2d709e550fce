package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwaitIdle: a run waits until the processors are idle, for so long at most, and other work that does not end is logged.
func TestAwaitIdle(t *testing.T) {
	for name, tt := range map[string]struct {
		busy   []float64 // at each look; the last stays
		err    error
		waited time.Duration
		logged []string
	}{
		"idle":       {busy: []float64{0.09}, waited: 250 * time.Millisecond},
		"busy first": {busy: []float64{1, 0.5, 0.1, 0}, waited: time.Second},
		"busy": {busy: []float64{0.5, 1, 0.426}, waited: 20 * time.Second,
			logged: []string{"spill: other work has 43 % of the processors: the figures are not reliable"}},
		"unknown": {busy: []float64{0}, err: errors.New("no such file"), waited: 250 * time.Millisecond,
			logged: []string{"spill: whether the processors are idle is not known: no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged []string
				l := &Lab{
					cfg: Config{
						Scale: Scale{Idle: 20 * time.Second},
						Log:   func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) },
					},
					busy: func(_ context.Context, over time.Duration) (float64, error) {
						time.Sleep(over)
						busy := tt.busy[0]
						if len(tt.busy) > 1 {
							tt.busy = tt.busy[1:]
						}
						return busy, tt.err
					},
				}
				began := time.Now()
				if err := l.awaitIdle(t.Context(), "spill"); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(began); waited != tt.waited || !slices.Equal(logged, tt.logged) {
					t.Errorf("waited for %v, logged %q", waited, logged)
				}
			})
		})
	}
}

// TestAwaitIdleCanceled: a bench that is ended does not wait.
func TestAwaitIdleCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := &Lab{
		cfg:  Config{Scale: Scale{Idle: time.Hour}},
		busy: func(context.Context, time.Duration) (float64, error) { cancel(); return 1, nil },
	}
	if err := l.awaitIdle(ctx, "spill"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
