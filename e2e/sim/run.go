package sim

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"isthmus/e2e/harness"
)

type simulation struct {
	cfg     Config
	world   *world
	gateway *harness.Replica
	clients *clients
	tenant  *clients // the clients of the hostile tenant
	audit   *audit
	story   *story
	pulse   pulse
	ready   readiness
	report  Report
}

// Run simulates until the rounds or the duration are over, or a check fails. A failed check is
// returned as a *Failure. Any other error means that the simulation itself failed.
func Run(ctx context.Context, cfg Config) (report Report, err error) {
	if err := cfg.validate(); err != nil {
		return Report{}, err
	}
	s := &simulation{cfg: cfg, story: newStory(cfg), report: newReport(cfg)}
	defer func() { report = s.report }()
	if s.world, err = newWorld(cfg); err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.world.close()) }()
	s.world.fill()
	fillTenant(s.world)
	fillExports(s.world)
	if s.gateway, err = s.world.startGateway(
		ctx,
		slices.Concat([]string{"-log-level=info", "-cluster-memory=32Mi"}, exportArgs, s.world.flags.args())...,
	); err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.gateway.Stop()) }()
	if s.clients, err = newClients(s.world, s.gateway.Addr()); err != nil {
		return report, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := startTenant(ctx, s); err != nil {
		return report, errors.Join(err, s.clients.stop())
	}
	var watching sync.WaitGroup
	watching.Go(func() { s.pulse.Run(ctx) })
	watching.Go(func() {
		s.ready.run(ctx, func(ctx context.Context) error {
			_, err := harness.GetPage(ctx, s.gateway.MetricsAddr(), "/ready")
			return err
		})
	})
	defer func() {
		stop()
		err = errors.Join(err, s.clients.stop(), s.tenant.stop())
		watching.Wait()
	}()
	s.clients.start(ctx)
	s.audit = newAudit(s.world, s.clients)
	return report, s.rounds(ctx)
}

func (s *simulation) rounds(ctx context.Context) error {
	began := time.Now()
	if err := settle(ctx, s, 0); err != nil {
		return err
	}
	s.world.written = s.audit.written
	for round := 1; s.cfg.Rounds == 0 || round <= s.cfg.Rounds; round++ {
		if s.cfg.Duration > 0 && time.Since(began) >= s.cfg.Duration {
			break
		}
		s.world.rng = rand.New(rand.NewPCG(s.cfg.Seed, uint64(round)))
		if err := s.round(ctx, round); err != nil {
			return err
		}
		if err := outage(ctx, s, round); err != nil {
			return err
		}
	}
	return nil
}

// round makes some steps and then checks everything.
func (s *simulation) round(ctx context.Context, round int) error {
	w := s.world
	w.exports.round = round
	w.exports.race(rand.New(rand.NewPCG(s.cfg.Seed, uint64(round))))
	// Some rounds are quick. Others last long enough for Isthmus to notice silent connections.
	pace := int64(s.cfg.Pace) * pick(w, []int64{0, 1, 1, 2, 10}) / 2
	// After many steps, changes have met in many ways. After few steps, a change that Isthmus
	// missed still shows.
	for range max(1, s.cfg.Steps*pick(w, []int{1, 3, 10, 10})/10) {
		if err := s.step(); err != nil {
			return err
		}
		if err := harness.Pause(ctx, time.Duration(w.rng.Int64N(2*pace+1))); err != nil {
			return err
		}
	}
	// In half of the rounds, all faults are healed before the check. In the others, some clusters
	// stay away.
	all := w.chance(2)
	for i, c := range w.clusters {
		if all || i == 0 {
			if text := heal(w, c); text != "" {
				s.story.note("", c.name+": "+text)
			}
		}
	}
	for _, c := range s.clients.all {
		if c.stalled {
			c.stall(false)
		}
	}
	w.exports.race(nil)
	return settle(ctx, s, round)
}

// step makes one random step.
func (s *simulation) step() error {
	w := s.world
	for { // until a step was possible
		switch n := w.rng.IntN(120); {
		case n < 68:
			if s.change(endpointSteps, pick(w, w.clusters), pick(w, w.services)) {
				return w.err
			}
		case n < 76:
			if s.change(definitionSteps, w.clusters[0], pick(w, w.services)) {
				return w.err
			}
		case n < 80:
			if s.change(standingSteps, pick(w, w.clusters[1:]), "") {
				return w.err
			}
		case n < 84:
			if s.change(linkSteps, pick(w, w.clusters[1:]), "") {
				return w.err
			}
		case n < 88:
			if s.change(gatewaySteps, pick(w, w.clusters[1:]), "") {
				return w.err
			}
		case n < 91:
			if s.change(faultSteps, pick(w, w.clusters), "") {
				return w.err
			}
		case n < 93:
			if s.change(forgeSteps, pick(w, w.clusters), pick(w, w.services)) {
				return w.err
			}
		case n < 95:
			if s.change(tenantSteps, pick(w, w.clusters), "") {
				return w.err
			}
		case n < 115:
			if s.change(exportSteps, pick(w, w.clusters), "") {
				return w.err
			}
		default:
			if s.change(clientSteps(s.clients), nil, "") {
				return w.err
			}
		}
	}
}

// change makes one of the steps, for a service of a cluster. It returns false if the step was not
// possible. For steps of clients, c is nil.
func (s *simulation) change(from []step, c *cluster, service string) bool {
	k := weighted(s.world, from)
	text := k.do(s.world, c, service)
	if text == "" {
		return false
	}
	s.report.Steps[cmp.Or(k.name, text)]++
	of := ""
	if c != nil {
		of = c.name + " " + service + " "
	}
	s.story.note(service, of+cmp.Or(k.name, "fault")+": "+text)
	return true
}

// weighted picks one of the list by weight.
func weighted(w *world, list []step) step {
	sum := 0
	for _, k := range list {
		sum += k.weight
	}
	n := w.rng.IntN(sum)
	for _, k := range list {
		if n -= k.weight; n < 0 {
			return k
		}
	}
	return list[0] // not reached
}
