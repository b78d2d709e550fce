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

// Pause is how long there must be between two beats for that to count as a pause.
const Pause = 100 * time.Millisecond

// Pulse beats while it runs. The zero value is ready for use. Its methods may be called concurrently.
type Pulse struct {
	mu     sync.Mutex
	last   time.Time
	most   time.Duration // between two beats, since Longest was asked
	pauses []span        // all of them
}

type span struct{ from, to time.Time }

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
	p.add(time.Now())
}

// add adds a beat. The caller holds mu.
func (p *Pulse) add(now time.Time) {
	if !p.last.IsZero() {
		took := now.Sub(p.last)
		if p.most = max(p.most, took); took > Pause {
			p.pauses = append(p.pauses, span{p.last, now})
		}
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

// Between returns how much time went by between two moments, without pauses. Before Run nothing is known of those.
func (p *Pulse) Between(from, to time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.last.IsZero() {
		p.add(time.Now()) // a pause may have ended just now
	}
	took := to.Sub(from)
	for _, s := range p.pauses {
		if begin, end := later(s.from, from), earlier(s.to, to); end.After(begin) {
			took -= end.Sub(begin)
		}
	}
	return took
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
