package harness

import (
	"context"
	"fmt"
	"time"
)

// Poll calls check repeatedly until it returns nil, with a pause of the given interval after each
// error. When the limit or ctx expires, Poll returns the last error of check.
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

// Pause waits for d. It returns an error if ctx ends first.
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
