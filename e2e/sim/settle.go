package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"isthmus/e2e/harness"
	"isthmus/internal/adminapi"
)

// arrested is the longest time between two beats of the pulse after which a late message still
// counts as an error.
const arrested = 300 * time.Millisecond

// settle waits until all clients hold what they should, checks what they saw meanwhile, and starts
// a new period of the audit. Nothing changes meanwhile, so the answers stay valid.
func settle(ctx context.Context, s *simulation, round int) error {
	w := s.world
	answers := map[view]answer{}
	for _, c := range s.clients.all {
		if _, ok := answers[c.view()]; !ok {
			answers[c.view()] = ask(w, c.view())
		}
	}
	began, within, away := time.Now(), s.cfg.Within+longestSteering, away(w)
	if left := time.Until(w.lagging); left > 0 {
		within += left
	}
	if err := probed(ctx, s, within); err != nil {
		return failure(s, round, nil, err)
	}
	for _, c := range s.clients.all {
		err := c.stream.Until(
			ctx,
			max(0, within-time.Since(began)),
			func() error { return wrong(w, c, answers[c.view()], away) },
		)
		if ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			return failure(
				s, round,
				c,
				fmt.Errorf("the client does not hold what it should, %v after the last change: %w", within, err),
			)
		}
	}
	took := time.Since(began)
	gap := s.pulse.Longest()
	for _, c := range s.clients.all {
		late, err := s.audit.seen(c, gap > arrested)
		if err != nil {
			return failure(s, round, c, err)
		}
		s.report.Late += late
	}
	s.report.Gap = max(s.report.Gap, gap)
	if err := healthy(ctx, s); err != nil {
		return failure(s, round, nil, err)
	}
	s.audit.mark(s.clients)
	if len(away) == 0 {
		if err := linked(ctx, s, within-time.Since(began)); err != nil {
			return failure(s, round, nil, err)
		}
		for _, c := range w.clusters[1:] {
			c.link.settle()
			c.troubled = c.fault != nil ||
				time.Now().Before(w.lagging) // an endless response may still be in progress
		}
	}
	if err := exported(ctx, s, round); err != nil {
		return failure(s, round, nil, err)
	}
	s.report.settled(round, took, w, s.clients)
	return nil
}

// healthy returns an error unless Isthmus is running, and was ready all the time.
func healthy(ctx context.Context, s *simulation) error {
	if err := s.gateway.Check(ctx); err != nil {
		return err
	}
	return s.ready.err()
}

// linked waits until Isthmus shows all linked clusters as ready, and uses the newest credentials
// that work. It also waits for the warning about Servers that cost too much. If the page cannot be
// read, linked fails at once.
func linked(ctx context.Context, s *simulation, within time.Duration) error {
	var failed error
	late := harness.Poll(ctx, within, 50*time.Millisecond, func() error {
		var page adminapi.Clusters
		if page, failed = harness.ReadClusters(ctx, s.gateway.MetricsAddr()); failed != nil {
			return nil
		}
		for _, c := range s.world.clusters[1:] {
			if err := c.ready(page); err != nil {
				return err
			}
		}
		if about := "Servers of namespace " + tenantNamespace; s.world.clusters[0].costly &&
			!strings.Contains(strings.Join(page.Local.Warnings, " "), about) {
			return fmt.Errorf("the page has no warning about %s", about)
		}
		return nil
	})
	return errors.Join(failed, late)
}

// readiness records when Isthmus is not ready. After Isthmus was ready once, nothing that clusters
// and clients do may make it unready.
type readiness struct {
	mu        sync.Mutex
	refused   error // the first error, if any
	suspended bool  // Isthmus is being restarted
}

const readyEvery = 20 * time.Millisecond

// run calls ask until ctx ends or ask fails.
func (r *readiness) run(ctx context.Context, ask func(context.Context) error) {
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	for {
		began := time.Now()
		if err := ask(ctx); err != nil && ctx.Err() == nil {
			if r.refuse(fmt.Errorf("at %s: %w", began.Format("15:04:05.000"), err)) {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// refuse records why Isthmus is not ready. During a restart of Isthmus, it does nothing and returns
// false.
func (r *readiness) refuse(why error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.suspended {
		return false
	}
	r.refused = why
	return true
}

// suspend makes run ignore errors. If on is false, run reports them again.
func (r *readiness) suspend(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.suspended = on
}

// err returns why Isthmus was not ready at some time.
func (r *readiness) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// pulseBeat is the time between two beats of a pulse.
const pulseBeat = 10 * time.Millisecond

// pulse detects when the machine pauses this process. Other processes on the machine, such as
// Isthmus, are then probably paused too, so time limits do not apply. The zero value is ready to
// use. The methods may be called concurrently.
type pulse struct {
	mu   sync.Mutex
	last time.Time
	most time.Duration // the longest time between two beats since the last call of Longest
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

// Longest returns the longest time between two beats since the last call.
func (p *pulse) Longest() time.Duration {
	p.note()
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.most
	p.most = 0
	return most
}
