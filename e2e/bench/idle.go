package bench

import (
	"context"
	"time"

	"isthmus/e2e/bench/proc"
)

// awaitIdle waits until less than a tenth of the processors is in use, for Scale.Idle at most: what the last run has left to
// do is not this one's. Then it logs how much is in use, since that makes the figures worse, of the floor too.
func (l *Lab) awaitIdle(ctx context.Context, t Trial) error {
	const enough, look = 0.1, 250 * time.Millisecond
	busy := 0.0
	for began := time.Now(); time.Since(began) < l.cfg.Scale.Idle; {
		var err error
		if busy, err = proc.Busy(ctx, min(look, l.cfg.Scale.Idle)); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			l.cfg.Log("%s: whether the processors are idle is not known: %v", t.Name, err)
			return nil
		} else if busy < enough {
			return nil
		}
	}
	if busy > 0 {
		l.cfg.Log("%s: other work has %.0f %% of the processors: the figures are not reliable", t.Name, 100*busy)
	}
	return nil
}
