package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/harness"
)

// ExportsScale is the number of exports in a fleet, and the rate of changes to them.
type ExportsScale struct {
	ManyScale
	Exports int     // exports per linked cluster
	Changes float64 // changes per second to exports in all clusters
}

// exports returns a trial in which all clusters export their Services to two replicas, one of which
// writes. Then endpoints change, first without and then with simultaneous changes to exports. The
// streams are connected to the replica that writes.
func exports(s Scale) Trial {
	c := s.Exports
	return Trial{
		Name: "exports", Claims: overview, repeats: 1, fleet: func(size int) fleet.Config {
			cfg := c.fleet(size)
			cfg.Exports = c.Exports
			return cfg
		},
		Figures: []Figure{
			{Key: "written", Label: "time until all exports are written", Unit: "s", Max: 70},
			{
				Key:   "rest p99",
				Label: "99th percentile of the delay while exports stay unchanged",
				Unit:  "ms",
				Max:   100,
			},
			{Key: "p99", Label: "99th percentile of the delay while exports change", Unit: "ms", Max: 100},
		},
		do: func(r *run) { c.do(r) },
	}
}

func (c ExportsScale) do(r *run) {
	writer, other := r.startReplica("first", "-exports=on"), r.startReplica("second", "-exports=on")
	writer.settled()
	other.settled()

	began := time.Now()
	check(r.fleet.Export())
	for written, last := 0, began; written < r.fleet.Exported(); r.set("written", last.Sub(began).Seconds()) {
		r.pause(100 * time.Millisecond)
		written, last = r.fleet.Written()
	}
	r.pause(aftermath)
	if !writer.writes() {
		writer = other
	}

	m := c.meter(writer)
	r.set("rest p99", percentile(m.happen(c.ManyScale), 99))
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	changing := make(chan error, 1)
	go func() { changing <- c.change(ctx, r.fleet) }()
	r.set("p99", percentile(m.happen(c.ManyScale), 99))
	stop()
	check(<-changing)
}

// change changes random exports until the context ends.
func (c ExportsScale) change(ctx context.Context, f *fleet.Fleet) error {
	random := rand.New(rand.NewPCG(manySeed, manySeed))
	next := time.Now()
	for n := 0; ; n++ {
		next = next.Add(time.Duration(random.ExpFloat64() / c.Changes * float64(time.Second)))
		if harness.Pause(ctx, time.Until(next)) != nil {
			return nil
		}
		if err := f.ChangeExport(1+random.IntN(c.Linked), random.IntN(c.Exports), fmt.Sprint("team-", n)); err != nil {
			return err
		}
	}
}
