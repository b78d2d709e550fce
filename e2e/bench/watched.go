package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"isthmus/e2e/bench/world"
)

// plainWatch notes when a watch in the plain way of client-go, which does nothing else, has each change: that much of a delay
// is the API servers' and the processors'.
type plainWatch struct {
	stop context.CancelFunc

	mu sync.Mutex
	at map[watchedService][]time.Time
}

type watchedService struct {
	cluster int
	name    string
}

// watchPlainly begins with the next change.
func watchPlainly(ctx context.Context, w *world.World) (*plainWatch, error) {
	ctx, stop := context.WithCancel(ctx)
	p := &plainWatch{stop: stop, at: map[watchedService][]time.Time{}}
	err := w.Watch(ctx, func(cluster int, service string, at time.Time) {
		p.mu.Lock()
		defer p.mu.Unlock()
		s := watchedService{cluster, service}
		p.at[s] = append(p.at[s], at)
	})
	if err != nil {
		stop()
	}
	return p, err
}

// delays returns, in order, how long each change took, by when those of an authority were written.
func (p *plainWatch) delays(of []service, written map[string][]time.Time) (delays []float64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range of {
		at, changed := p.at[watchedService{s.cluster, s.name}], written[s.authority]
		if len(at) != len(changed) {
			return nil, fmt.Errorf("a plain watch had %d changes of %s, not %d", len(at), s.authority, len(changed))
		}
		for i := range at {
			delays = append(delays, milliseconds(at[i].Sub(changed[i])))
		}
	}
	return sorted(delays), nil
}
