package bench

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"isthmus/e2e/admin"
	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/poll"
	"isthmus/internal/adminapi"
	"isthmus/internal/apisim"
)

// BlastScale is how much there is while one of the linked clusters floods.
type BlastScale struct {
	Linked   int    // clusters
	Services int    // federated ones, each of all of them with one endpoint
	Rate     int    // changes a second, of the other clusters in turn
	Events   int    // a second of the flood
	Fits     int    // objects of it that the budget has room for
	Budget   string // --cluster-memory
	Quiet    int    // rounds, in each of which every Service changes twice, without a flood, before each with one
	Flood    int    // rounds within the budget, and as many beyond it
}

const (
	// flooding is the cluster that floods.
	flooding = 1
	// floodLimit is how long the gateway may take to notice that a cluster is beyond its budget, or that it is no more.
	floodLimit = 90 * time.Second
	// maxGarbage is from where on this process collects garbage during the trial.
	maxGarbage = 4 << 30
)

// blast lets the Services of twenty clusters change under open streams while one more cluster does nothing, writes objects of
// ever new names within its budget, and then beyond it. The floor is the same gateway without a flood, which is written all
// the same, to an API server that nobody follows, so that what it takes to write it is no difference.
func blast(s Scale) Trial {
	c := s.Blast
	return Trial{
		Name: "blast", repeats: 1,
		Figures: []Figure{
			{Key: "p99", Label: "within the budget: the last stream has another cluster's change, 99th percentile", Unit: "ms", MaxRatio: 2},
			{Key: "over p99", Label: "beyond the budget: the last stream has another cluster's change, 99th percentile", Unit: "ms", MaxRatio: 2},
			{Key: "p50", Label: "within the budget: the last stream has another cluster's change, median", Unit: "ms"},
			{Key: "over p50", Label: "beyond the budget: the last stream has another cluster's change, median", Unit: "ms"},
			{Key: "peak", Label: "within the budget: peak resident memory", Unit: "MB"},
			{Key: "over peak", Label: "beyond the budget: peak resident memory", Unit: "MB"},
			{Key: "share", Label: "within the budget: CPU of one core", Unit: "%"},
			{Key: "over share", Label: "beyond the budget: CPU of one core", Unit: "%"},
			{Key: "events", Label: "events a second of the flood"},
			{Key: "budget", Label: "beyond the budget: how much of it is used", Unit: "%", Max: 125},
			{Key: "back", Label: "the cluster is followed again, after the flood", Unit: "s", Max: 60},
		},
		fleet: func(int) fleet.Config {
			return fleet.Config{Linked: c.Linked, Services: c.Services, Slices: 1, Endpoints: 1}
		},
		do: func(r *run) {
			unread := must(apisim.Start("unread", nil))
			r.atEnd(unread.Close)
			at := r.start("-cluster-memory=" + c.Budget)
			b := &blasting{server: at, BlastScale: c, elsewhere: &flood{server: unread}, flood: &flood{server: r.fleet.Server(flooding)}}
			b.streams = at.open(spread(s.Streams, s.Conns, c.Services, federated))
			b.measure()
		},
	}
}

// blasting is the trial while it runs.
type blasting struct {
	*server
	BlastScale
	streams          *load.Load
	flood, elsewhere *flood
}

// measure makes all blocks. Of those without a flood the slower one counts: what they differ by is noise.
func (b *blasting) measure() {
	b.block(b.elsewhere, 2, b.Fits) // what opening the streams took is to be gone
	before := b.block(b.elsewhere, b.Quiet, b.Fits)
	within := b.block(b.flood, b.Flood, b.Fits)
	if c := must(b.state()); c.State != adminapi.Ready {
		check(fmt.Errorf("within its budget the cluster is %s: %s", c.State, c.Reason))
	}
	between := b.block(b.elsewhere, b.Quiet, b.Fits)
	b.exceed()
	beyond := b.block(b.flood, b.Flood, 0)
	floor := Sample{}
	for key, value := range within {
		floor[key] = max(before[key], between[key])
		floor["over "+key] = floor[key]
		b.set(key, value)
		b.set("over "+key, beyond[key])
	}
	b.samples[Floor] = floor
	b.comeBack()
}

// block lets Services change for so many rounds beside a flood, and returns what that was like. The garbage of this process,
// which has the API servers and the client, is collected before: what would wait for that is not the gateway's delay.
func (b *blasting) block(flood *flood, rounds, limit int) Sample {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(maxGarbage))
	b.resetPeak()
	m := b.meter(b.streams)
	flood.start(b.ctx, b.Events, limit)
	written := b.changes(rounds)
	took := time.Since(m.began)
	cpu := m.spent()
	events := must(flood.end())
	b.settle(b.streams)
	delays := must(nextDelays(b.streams, written))
	return Sample{
		"p50": percentile(delays, 50), "p99": percentile(delays, 99), "share": share(cpu, took), "peak": megabytes(b.peak()),
		"events": float64(events) / took.Seconds(),
	}
}

// changes takes one endpoint of every Service away, and then brings all back, round after round, and returns when each was
// written: just before, since a watch can be faster than what would note the time after that. The clusters take turns,
// without the one that floods. What is late is not made up for: an endpoint that is away for too short a time is never missed.
func (b *blasting) changes(rounds int) map[string][]time.Time {
	written := map[string][]time.Time{}
	next, every := time.Now(), time.Second/time.Duration(b.Rate)
	for i := range 2 * rounds * b.Services {
		b.pause(time.Until(next))
		if next = next.Add(every); time.Until(next) < 0 {
			next = time.Now()
		}
		n := i % b.Services
		written[federated(n)] = append(written[federated(n)], time.Now())
		check(b.fleet.Flip(flooding+1+n%(b.Linked-1), fleet.Service(n)))
	}
	return written
}

// exceed lets the flood go on until the gateway shows that the cluster is beyond its budget.
func (b *blasting) exceed() {
	b.flood.start(b.ctx, b.Events, 0)
	b.await(overBudget)
	must(b.flood.end())
}

func overBudget(c adminapi.Cluster) bool {
	return c.State == adminapi.Stale && strings.Contains(c.Reason, "over budget: ")
}

// comeBack sets how much of its budget the cluster has used, deletes the flood's objects, and sets how long it took until the
// cluster was followed again.
func (b *blasting) comeBack() {
	c := must(b.state())
	if !overBudget(c) {
		check(fmt.Errorf("beyond its budget the cluster is %s: %s", c.State, c.Reason))
	}
	b.set("budget", 100*float64(c.Memory.Used)/float64(c.Memory.Limit))
	check(b.flood.subside())
	began := time.Now()
	b.await(func(c adminapi.Cluster) bool { return c.State == adminapi.Ready })
	b.set("back", time.Since(began).Seconds())
	of := 0 // streams of the first Service
	b.streams.Arrivals(func(to load.Target, _ []time.Time) {
		if to.Authority == federated(0) {
			of++
		}
	})
	m := b.meter(b.streams)
	check(b.fleet.Flip(flooding, fleet.Service(0)))
	check(poll.Until(b.ctx, floodLimit, floodEvery, func() error {
		if got := m.messages(); got != of {
			return fmt.Errorf("after the flood, a change of its cluster: %d messages, not %d", got, of)
		}
		return nil
	}))
}

// state returns what the gateway shows of the cluster that floods.
func (b *blasting) state() (c adminapi.Cluster, err error) {
	page, err := admin.ReadClusters(b.ctx, b.admin)
	if err != nil {
		return c, err
	}
	all := admin.Named(page, fleet.Name(flooding))
	if len(all) != 1 {
		return c, fmt.Errorf("the gateway shows %d clusters %s", len(all), fleet.Name(flooding))
	}
	return all[0], nil
}

// await waits until the gateway shows that of the cluster that floods, and returns it.
func (b *blasting) await(is func(adminapi.Cluster) bool) (c adminapi.Cluster) {
	check(poll.Until(b.ctx, floodLimit, 100*time.Millisecond, func() (err error) {
		if c, err = b.state(); err == nil && !is(c) {
			err = fmt.Errorf("the cluster that has flooded is %s: %s", c.State, c.Reason)
		}
		return err
	}))
	return c
}
