package cli

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwait checks that the reason for waiting is printed after a second, and that overdue work is
// abandoned.
func TestAwait(t *testing.T) {
	for _, c := range []struct {
		takes, limit, want time.Duration
		err                error
		stderr             string
	}{
		{SlowAfter - 1, time.Hour, SlowAfter - 1, nil, ""},
		{time.Minute, time.Hour, time.Minute, nil, "demo: waiting for x\n"},
		{time.Minute, 2 * time.Second, 2*time.Second + afterLimit, context.DeadlineExceeded, "demo: waiting for x\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var stderr bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			began := time.Now()
			err := Process{Name: "demo", Stderr: &stderr}.Await(ctx, " for x",
				func() error { time.Sleep(c.takes); return nil })
			if took := time.Since(began); !errors.Is(err, c.err) || took != c.want || stderr.String() != c.stderr {
				t.Errorf("%v after %v, %q", err, took, stderr.String())
			}
			time.Sleep(c.takes) // wait until the work has ended
		})
	}
}
