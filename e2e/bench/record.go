package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"isthmus/e2e/bench/floor"
	"isthmus/e2e/bench/load"
)

// record asks the measured server once for everything that trials are about, one stream for each service, and writes what
// it answers.
func (l *Lab) record(ctx context.Context, trials []Trial) (err error) {
	asked := map[string]bool{}
	for _, t := range trials {
		for _, f := range t.families {
			asked[f.name] = true
		}
	}
	at, err := l.start(ctx, Gateway)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Stop()) }()
	r := floor.Recording{Get: map[string]floor.Answer{}, GetProfile: map[string]floor.Answer{}}
	for _, f := range []family{webLocal, webFederated, appLocal, appFederated, profilesLocal, profilesFederated} {
		if !asked[f.name] {
			continue
		}
		to := r.Get
		if f.method == profileMethod {
			to = r.GetProfile
		}
		if err := l.recordFamily(ctx, at, f, to); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return r.Write(l.recording)
}

// quiet is how long after the last message a server is assumed to have sent all.
const quiet = time.Second

// recordFamily adds what the services of a family answer. All that are changed in one cluster have the steps of the first
// of these, which is changed and changed back: those of the others have the same sizes.
func (l *Lab) recordFamily(ctx context.Context, at subject, f family, to map[string]floor.Answer) (err error) {
	cfg := load.Config{Addr: at.Addr(), Method: f.method, Conns: l.cfg.Scale.Conns, Keep: true}
	services := f.count(l.cfg.Scale.World)
	for i := range services {
		cfg.Targets = append(cfg.Targets, load.Target{Authority: f.of(i).authority})
	}
	streams, err := load.Open(ctx, cfg)
	if end, ok := errors.AsType[*load.EndError](err); ok && end.Code == codes.Unimplemented {
		l.absent[f.name] = err
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, streams.Close()) }()
	if err := settle(ctx, streams); err != nil {
		return err
	}
	streams.Messages(func(t load.Target, messages [][]byte) { to[t.Authority] = floor.Answer{First: messages} })
	if l.first[f.name], err = uniform(to, cfg.Targets); err != nil {
		return err
	}
	steps := make(map[int][][]byte) // by cluster
	for i, t := range cfg.Targets {
		s := f.of(i)
		if steps[s.cluster] == nil {
			if steps[s.cluster], err = l.recordSteps(ctx, at, streams, s); err != nil {
				return err
			}
		}
		to[t.Authority] = floor.Answer{First: to[t.Authority].First, Steps: steps[s.cluster]}
	}
	return nil
}

// recordSteps returns what a service's stream is sent for a change, such as an endpoint that goes, and for the way back.
func (l *Lab) recordSteps(ctx context.Context, at subject, streams *load.Load, s service) (steps [][]byte, err error) {
	for range 2 {
		if _, err := at.change(ctx, s); err != nil {
			return nil, err
		}
		if err := settle(ctx, streams); err != nil {
			return nil, err
		}
	}
	streams.Messages(func(t load.Target, messages [][]byte) {
		if t.Authority == s.authority && len(messages) > 2 {
			steps = messages[len(messages)-2:]
		}
	})
	if steps == nil {
		return nil, fmt.Errorf("%s: two changes have not led to two messages", s.authority)
	}
	return steps, nil
}

// settle waits until nothing has come for a while.
func settle(ctx context.Context, streams *load.Load) error {
	tick := time.NewTicker(quiet)
	defer tick.Stop()
	for before := -1; before != streams.Received(); {
		before = streams.Received()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// uniform returns with how many messages each stream begins.
func uniform(answers map[string]floor.Answer, targets []load.Target) (int, error) {
	n := len(answers[targets[0].Authority].First)
	for _, t := range targets {
		if got := len(answers[t.Authority].First); got != n {
			return 0, fmt.Errorf("%s begins with %d messages, %s with %d", targets[0].Authority, n, t.Authority, got)
		}
	}
	return n, nil
}
