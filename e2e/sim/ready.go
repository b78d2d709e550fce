package sim

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// readiness notices when the gateway is not ready: once it has been, nothing that clusters and clients do may change that.
type readiness struct {
	mu      sync.Mutex
	refused error // the first time, if there was one
}

const readyEvery = 20 * time.Millisecond

// run asks all along, until ctx ends or it is refused.
func (r *readiness) run(ctx context.Context, ask func(context.Context) error) {
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	for {
		began := time.Now()
		if err := ask(ctx); err != nil && ctx.Err() == nil {
			r.mu.Lock()
			r.refused = fmt.Errorf("at %s: %w", began.Format("15:04:05.000"), err)
			r.mu.Unlock()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// err returns why the gateway was not ready all along.
func (r *readiness) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}
