// Package pulse notices when the machine does not let this process run. Another process of the same machine, such as the
// gateway, can't be held to limits of time then.
package pulse

import (
	"context"
	"sync"
	"time"
)

// beat is how often a Pulse looks at the clock.
const beat = 10 * time.Millisecond

// Pulse beats while it runs. The zero value is ready for use. Its methods may be called concurrently.
type Pulse struct {
	mu   sync.Mutex
	last time.Time
	most time.Duration // between two beats, since Longest was asked
}

// Run beats until ctx ends.
func (p *Pulse) Run(ctx context.Context) {
	p.note()
	tick := time.NewTicker(beat)
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

func (p *Pulse) note() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.last.IsZero() {
		p.most = max(p.most, now.Sub(p.last))
	}
	p.last = now
}

// Longest returns the longest time between two beats since it was last asked.
func (p *Pulse) Longest() time.Duration {
	p.note()
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.most
	p.most = 0
	return most
}
