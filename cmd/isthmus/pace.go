package main

import (
	"context"
	"time"
)

// Work that is done in pieces takes a tenth of one processor: proxies are not to notice it.
const (
	paceWork = time.Millisecond      // after which it rests, once its piece is done
	paceRest = 9                     // times as long as it has worked
	paceMost = 20 * time.Millisecond // of a rest: what took longer waited itself
)

// pace is how fast work may be done. It is for one goroutine.
type pace struct {
	ctx   context.Context // once it ends, there is no rest
	since time.Time       // when the work began, or its last rest ended
}

func newPace(ctx context.Context) *pace { return &pace{ctx, time.Now()} }

// rest is called after each piece of work.
func (p *pace) rest() {
	worked := time.Since(p.since)
	if worked < paceWork {
		return
	}
	over := time.NewTimer(min(paceMost, paceRest*worked))
	defer over.Stop()
	select {
	case <-over.C:
	case <-p.ctx.Done():
	}
	p.since = time.Now()
}
