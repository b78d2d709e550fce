package sim

import (
	"context"
	"sync"
	"time"
)

// pulseBeat is how often a pulse looks at the clock.
const pulseBeat = 10 * time.Millisecond

// pulse notices when the machine does not let this process run. Another process of the same machine, such as Isthmus,
// cannot be held to limits of time then. It beats while it runs. The zero value is ready for use. Its methods may be called concurrently.
type pulse struct {
	mu   sync.Mutex
	last time.Time
	most time.Duration // between two beats, since Longest was asked
}

// Run beats until ctx ends.
func (p *pulse) Run(ctx context.Context) {
	p.note()
	tick := time.NewTicker(pulseBeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.note()
		}
	}
}

func (p *pulse) note() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.last.IsZero() {
		p.most = max(p.most, now.Sub(p.last))
	}
	p.last = now
}

// Longest returns the longest time between two beats since it was last asked.
func (p *pulse) Longest() time.Duration {
	p.note()
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.most
	p.most = 0
	return most
}
