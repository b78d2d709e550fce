package sleep

import (
	"context"
	"time"
)

// For waits, and reports whether the time is over: false means that the context has ended before.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
