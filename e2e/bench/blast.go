package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/world"
	"isthmus/e2e/gateway"
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

// flooding is the cluster that floods.
const flooding = 1

// floodLimit is how long the gateway may take to notice that a cluster is beyond its budget, or that it is no more.
const floodLimit = 90 * time.Second

func blastTrial() Trial {
	return Trial{Name: "blast", Repeats: 1, own: blast, Metrics: []Metric{
		{Key: "p99", Label: "within the budget: the last stream has another cluster's change, 99th percentile", Unit: "ms", Ratio: 2},
		{Key: "over p99", Label: "beyond the budget: the last stream has another cluster's change, 99th percentile", Unit: "ms", Ratio: 2},
		{Key: "p50", Label: "within the budget: the last stream has another cluster's change, median", Unit: "ms"},
		{Key: "over p50", Label: "beyond the budget: the last stream has another cluster's change, median", Unit: "ms"},
		{Key: "peak", Label: "within the budget: peak resident memory", Unit: "MB"},
		{Key: "over peak", Label: "beyond the budget: peak resident memory", Unit: "MB"},
		{Key: "share", Label: "within the budget: CPU of one core", Unit: "%"},
		{Key: "over share", Label: "beyond the budget: CPU of one core", Unit: "%"},
		{Key: "events", Label: "events a second of the flood", Unit: ""},
		{Key: "budget", Label: "beyond the budget: how much of it is used", Unit: "%", Most: 125},
		{Key: "back", Label: "the cluster is followed again, after the flood", Unit: "s", Most: 60},
	}}
}

// blast lets the Services of twenty clusters change under open streams while one more cluster does nothing, writes objects of
// ever new names within its budget, and then beyond it. The floor is the same gateway without a flood, which is written all
// the same, to an API server that nobody follows, so that what it takes to write it is no difference.
func blast(ctx context.Context, l *Lab) (samples map[Kind]Sample, err error) {
	s := l.cfg.Scale.Blast
	unread, err := apisim.Start("unread", nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unread.Close()) }()
	f, err := follow(ctx, l.cfg, fleet.Config{Linked: s.Linked, Services: s.Services, Slices: 1, Endpoints: 1}, "-cluster-memory="+s.Budget)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.end(ctx)) }()
	b := &blasting{followed: f, scale: s, elsewhere: &flood{server: unread}, flood: &flood{server: f.fleet.Server(flooding)}}
	if b.streams, err = l.openBlasted(ctx, f.gateway, s); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.streams.Close()) }()
	return b.measure(ctx)
}

// openBlasted opens all streams, spread over all Services.
func (l *Lab) openBlasted(ctx context.Context, g *gateway.Gateway, s BlastScale) (*load.Load, error) {
	cfg := load.Config{Addr: g.Addr(), Method: "Get", Conns: l.cfg.Scale.Conns}
	for i := range l.cfg.Scale.Streams {
		_, authority := fleet.Service(i%s.Services, true)
		cfg.Targets = append(cfg.Targets, load.Target{Authority: authority, Token: world.Token(i)})
	}
	return load.Open(ctx, cfg)
}

// blasting is the trial while it runs.
type blasting struct {
	*followed
	scale            BlastScale
	streams          *load.Load
	flood, elsewhere *flood
}

// measure makes all blocks. Of those without a flood the slower one counts: what they differ by is noise.
func (b *blasting) measure(ctx context.Context) (map[Kind]Sample, error) {
	if _, err := b.block(ctx, b.elsewhere, 2, b.scale.Fits); err != nil { // what opening the streams took is to be gone
		return nil, err
	}
	before, err := b.block(ctx, b.elsewhere, b.scale.Quiet, b.scale.Fits)
	if err != nil {
		return nil, err
	}
	within, err := b.block(ctx, b.flood, b.scale.Flood, b.scale.Fits)
	if err != nil {
		return nil, err
	}
	if c, err := b.state(ctx); err != nil || c.State != "ready" {
		return nil, fmt.Errorf("within its budget the cluster is %+v (%w)", c, err)
	}
	between, err := b.block(ctx, b.elsewhere, b.scale.Quiet, b.scale.Fits)
	if err != nil {
		return nil, err
	}
	beyond, err := b.block(ctx, b.flood, b.scale.Flood, 0)
	if err != nil {
		return nil, err
	}
	floor, with := Sample{}, Sample{}
	for key, value := range within {
		floor[key] = max(before[key], between[key])
		floor["over "+key] = floor[key]
		with[key], with["over "+key] = value, beyond[key]
	}
	with["budget"], with["back"], err = b.recover(ctx)
	return map[Kind]Sample{Floor: floor, Gateway: with}, err
}

// recover lets the flood go on until the gateway shows that it is beyond the budget, and then subside, and returns how much of
// its budget the cluster had and how long it took until it is followed again.
func (b *blasting) recover(ctx context.Context) (budget, seconds float64, err error) {
	b.flood.start(ctx, b.scale.Events, 0)
	err = b.await(ctx, func(c adminapi.Cluster) bool {
		return c.State == "stale" && strings.Contains(c.Reason, "over budget: ")
	})
	_, wrong := b.flood.end()
	if err := errors.Join(err, wrong); err != nil {
		return 0, 0, err
	}
	c, err := b.state(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := b.flood.subside(); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := b.await(ctx, func(c adminapi.Cluster) bool { return c.State == "ready" }); err != nil {
		return 0, 0, err
	}
	seconds = time.Since(began).Seconds()
	service, _ := fleet.Service(0, true)
	messages := b.streams.Received()
	if err := b.fleet.Flip(flooding, service); err != nil {
		return 0, 0, err
	}
	return 100 * float64(c.Memory.Used) / float64(c.Memory.Limit), seconds, poll.Until(ctx, floodLimit, floodEvery, func() error {
		if want := messages + b.ofOneService(); b.streams.Received() != want {
			return fmt.Errorf("after the flood, a change of its cluster: %d messages, not %d", b.streams.Received(), want)
		}
		return nil
	})
}
