package sim

import (
	"context"
	"sync"
	"time"
)

// pulse notices when the machine does not let this process run. The gateway, another process of the same machine, can't be
// held to limits of time then.
type pulse struct {
	mu   sync.Mutex
	last time.Time
	most time.Duration // between two beats, since it was taken
}

const (
	beat     = 10 * time.Millisecond
	arrested = 300 * time.Millisecond // between two beats: too long to blame the gateway for being late
)

// run beats until ctx ends.
func (p *pulse) run(ctx context.Context) {
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

func (p *pulse) note() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.last.IsZero() {
		p.most = max(p.most, now.Sub(p.last))
	}
	p.last = now
}

// take returns the longest time between two beats since the last time.
func (p *pulse) take() time.Duration {
	p.note()
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.most
	p.most = 0
	return most
}
