package proxy

import (
	"context"
	"fmt"
	"time"
)

// Until calls check for every state that the stream comes to, until it returns no error, the limit is over, or ctx ends. Then
// it returns the last error.
func (s *Stream) Until(ctx context.Context, limit time.Duration, check func() error) error {
	return s.wait(ctx, limit, func() (bool, error) {
		err := check()
		return err == nil, err
	}, func(err error) error { return fmt.Errorf("not within %v: %w", limit, err) })
}

// Stays calls check for every state that the stream comes to within a time. It returns the first error.
func (s *Stream) Stays(ctx context.Context, within time.Duration, check func() error) error {
	return s.wait(ctx, within, func() (bool, error) {
		err := check()
		return err != nil, err
	}, func(error) error { return nil })
}

// wait calls look until that is done, with the result, or the time is over.
func (s *Stream) wait(ctx context.Context, limit time.Duration, look func() (done bool, err error), over func(error) error) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		changed := s.Changed() // before it is looked at, so that no state is missed
		done, err := look()
		if done {
			return err
		}
		select {
		case <-changed:
		case <-timer.C:
			return over(err)
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return ctx.Err()
		}
	}
}
