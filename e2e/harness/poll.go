package harness

import (
	"context"
	"fmt"
	"time"
)

// Poll calls check again and again, every time that long after it has returned an error, until it
// returns none, the limit is over, or ctx ends. Then it returns the last error.
func Poll(ctx context.Context, limit, every time.Duration, check func() error) error {
	over := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(over) {
			return fmt.Errorf("not within %v: %w", limit, err)
		}
		if ended := Pause(ctx, every); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// Pause waits, and returns an error if ctx ends meanwhile.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
