package bench

import (
	"context"
	"runtime"
	"time"
)

// awaitIdle waits until less than a tenth of the processors is in use, for Scale.Idle at most: what is left to do of the run
// before does not belong to this one. Then it logs how much is in use, since that makes the figures worse, of the floor too. The
// bench's own garbage is collected before.
func (l *Lab) awaitIdle(ctx context.Context, run string) error {
	const enough, look = 0.1, 250 * time.Millisecond
	runtime.GC()
	busy := 0.0
	for began := time.Now(); time.Since(began) < l.cfg.Scale.Idle; {
		var err error
		if busy, err = l.busy(ctx, min(look, l.cfg.Scale.Idle)); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			l.cfg.Log("%s: whether the processors are idle is not known: %v", run, err)
			return nil
		} else if busy < enough {
			return nil
		}
	}
	if busy > 0 {
		l.cfg.Log("%s: other work has %.0f %% of the processors: the figures are not reliable", run, 100*busy)
	}
	return nil
}
