package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Trial is one thing that is done to a server, and what is measured.
type Trial struct {
	Name     string
	Repeats  int // 0: those of the scale
	Metrics  []Metric
	Alone    bool // the floor has no such trial
	run      func(context.Context, *Lab, subject) (Sample, error)
	families []family
	own      func(context.Context, *Lab) (map[Kind]Sample, error) // not nil: instead of run, with clusters and servers of its own
}

// Metric is one number of a trial, and what it may be at most.
type Metric struct {
	Key   string // in the Sample
	Label string // of the figure
	Unit  string
	Ratio float64 // of the floor's at most; 0: there is no such target
	Most  float64 // in the unit, at most; 0: there is no such target
}

// Sample is what one run of a trial measured, by the metrics' keys.
type Sample map[string]float64

// Targets, times the floor.
const (
	atFloor   = 1.5 // of most figures
	asProxies = 1.3 // of streams that are spread as proxies have them
)

// Trials are all trials, in the order in which they are made.
func Trials() []Trial {
	return []Trial{
		{Name: "idle", Repeats: 1, Alone: true, run: idle, Metrics: []Metric{{Key: "rss", Label: "resident memory, no streams", Unit: "MB", Most: 100}}},
		connects("connect local", webLocal),
		connects("connect federated", webFederated),
		proxies("proxies 3,000 × 4", func(s ProxiesScale) Crowd { return s.Many }),
		proxies("proxies 1,000 × 20", func(s ProxiesScale) Crowd { return s.Busy }),
		steps("fan-out local", webLocal),
		steps("fan-out federated", webFederated),
		{Name: "churn", families: []family{appLocal, appFederated}, Repeats: 1, run: churn, Metrics: []Metric{
			{Key: "rate", Label: "changes a second", Unit: ""},
			{Key: "cpu", Label: "CPU a delivered update", Unit: "µs"}, // no target: here the gateway reads a change for every ten updates
			{Key: "share", Label: "CPU of one core", Unit: "%"},
			{Key: "p50", Label: "propagation, median", Unit: "ms"},
			{Key: "p99", Label: "propagation, 99th percentile", Unit: "ms", Ratio: 10},
			{Key: "watch p99", Label: "a watch that does nothing else has a change, 99th percentile", Unit: "ms"},
		}},
		{Name: "spill", Repeats: 1, own: spill, Metrics: []Metric{
			{Key: "spill p99", Label: "a service has spilled, 99th percentile", Unit: "ms"},
			{Key: "spill", Label: "the last stream has spilled", Unit: "ms", Most: 1000},
			{Key: "back p99", Label: "a service has the first tier back, 99th percentile", Unit: "ms"},
			{Key: "back", Label: "the last stream has the first tier back", Unit: "ms", Most: 1000},
			{Key: "return", Label: "the last part returns, after it was due", Unit: "ms", Most: 1000},
			{Key: "cpu", Label: "CPU a delivered message", Unit: "µs", Ratio: 2.5},
			{Key: "memory", Label: "memory a stream", Unit: "kB", Ratio: 2},
			{Key: "spilled", Label: "memory a stream, once all have spilled", Unit: "kB"}, // no target: most of it is what the collector leaves
		}},
		coldStarts("cold start 3 × 5,000", func(s Scale) ColdScale { return s.Cold }),
		coldStarts("cold start 20 × 10,000", func(s Scale) ColdScale { return s.ColdLarge }),
		{Name: "hot service", Repeats: 1, Alone: true, own: hot, Metrics: []Metric{
			{Key: "all", Label: "the last stream has its first message after", Unit: "s"},
			{Key: "late p50", Label: "a stream has the last change after, median", Unit: "ms"},
			{Key: "late", Label: "the last stream has the last change after", Unit: "ms", Most: 1000},
			{Key: "sent", Label: "sent to a stream", Unit: "MB"},
			{Key: "ratio", Label: "sent, relative to the least that adds and removes can take", Unit: "×", Most: 1.2},
			{Key: "messages", Label: "messages to a stream", Unit: ""},
			{Key: "share", Label: "CPU of one core meanwhile", Unit: "%"},
			{Key: "memory", Label: "memory a stream, before the restart", Unit: "kB"},
			{Key: "peak", Label: "peak resident memory", Unit: "MB"},
			{Key: "most", Label: "peak resident memory, relative to before the restart", Unit: "×", Most: 3},
		}},
		{Name: "storm", Repeats: 1, own: storm, Metrics: []Metric{
			{Key: "first p50", Label: "a first message takes, median", Unit: "ms"},
			{Key: "first", Label: "the slowest first message takes", Unit: "ms", Most: 1000},
			{Key: "after", Label: "the last proxy has its first message, after the kill", Unit: "ms"},
			{Key: "refused", Label: "connections that failed", Unit: "%", Most: 0.01},
			{Key: "cpu", Label: "CPU to take over", Unit: "s"},
			{Key: "calm", Label: "resident memory of the killed replica", Unit: "MB"},
			{Key: "peak", Label: "peak resident memory of the other replica", Unit: "MB"},
			{Key: "rest", Label: "resident memory of the other replica a minute later, above the killed one's", Unit: "%", Most: 10},
		}},
		manyTrial(),
		viewersTrial(),
		blastTrial(),
	}
}

// connects opens all streams of a family.
func connects(name string, f family) Trial {
	return Trial{Name: name, families: []family{f}, run: connect(f), Metrics: []Metric{
		{Key: "cpu", Label: "CPU to connect all", Unit: "s", Ratio: atFloor},
		{Key: "all", Label: "the last stream has its first message", Unit: "ms"},
		{Key: "memory", Label: "memory a stream", Unit: "kB", Ratio: atFloor},
		{Key: "reconnect", Label: "CPU to drop and reconnect all", Unit: "s", Ratio: atFloor},
	}}
}

// proxies opens streams as proxies have them, and changes some of what they are of.
func proxies(name string, of func(ProxiesScale) Crowd) Trial {
	return Trial{Name: name, families: []family{appLocal, appFederated, profilesLocal, profilesFederated}, run: meshed(of), Metrics: []Metric{
		{Key: "cpu", Label: "CPU to connect all", Unit: "s", Ratio: asProxies},
		{Key: "all", Label: "the last stream has its first message", Unit: "ms"},
		{Key: "memory", Label: "memory a stream, with its share of the connection's", Unit: "kB", Ratio: 1},
		{Key: "update", Label: "CPU a delivered update", Unit: "µs", Ratio: asProxies},
		{Key: "reconnect", Label: "CPU to drop and reconnect all", Unit: "s", Ratio: atFloor},
	}}
}

func steps(name string, f family) Trial {
	return Trial{Name: name, families: []family{f}, Repeats: 1, run: fanOut(f), Metrics: []Metric{
		{Key: "cpu", Label: "CPU a delivered update", Unit: "µs", Ratio: atFloor},
		{Key: "last", Label: "the last stream has a change", Unit: "ms", Ratio: atFloor},
	}}
}

// coldStarts starts a server again and again.
func coldStarts(name string, of func(Scale) ColdScale) Trial {
	return Trial{Name: name, Repeats: 1, own: coldStart(name, of), Metrics: []Metric{
		{Key: "ready", Label: "from start to ready", Unit: "s", Ratio: atFloor},
		{Key: "first", Label: "from start to a first message", Unit: "s", Ratio: atFloor},
		{Key: "whole", Label: "from start to the endpoints of all clusters", Unit: "s"},
		{Key: "cpu", Label: "CPU", Unit: "s"},
		{Key: "stays", Label: "resident memory, settled", Unit: "MB"},
		{Key: "most", Label: "peak resident memory, relative to settled", Unit: "×", Most: 2},
	}}
}

// trialLimit is how long one run of a trial may take.
const trialLimit = 3 * time.Minute

// Run makes trials, on the floor and on the measured server in turn.
func (l *Lab) Run(ctx context.Context, trials []Trial) ([]Result, error) {
	var results []Result
	for _, t := range trials {
		r := Result{Trial: t.Name, metrics: t.Metrics}
		if err := l.cannot(t); err != nil {
			r.Absent = err.Error()
			results = append(results, r)
			continue
		}
		began := time.Now()
		var err error
		if r.Samples, err = l.sample(ctx, t); err != nil {
			return results, err
		}
		l.cfg.Log("%s: %.0f s", t.Name, time.Since(began).Seconds())
		results = append(results, r)
	}
	return results, nil
}

// cannot returns why a trial is not made.
func (l *Lab) cannot(t Trial) error {
	if t.own != nil && l.cfg.Addr != "" {
		return errors.New("it is made with clusters of its own, which only the gateway follows")
	}
	for _, f := range t.families {
		if err := l.absent[f.name]; err != nil {
			return err
		}
	}
	return nil
}

// sample makes a trial, as often as it is to be made.
func (l *Lab) sample(ctx context.Context, t Trial) (map[Kind][]Sample, error) {
	samples := map[Kind][]Sample{}
	for range l.repeats(t) {
		if t.own != nil {
			if err := l.awaitIdle(ctx, t.Name); err != nil {
				return nil, err
			}
			ctx, cancel := context.WithTimeout(ctx, 2*trialLimit)
			defer cancel()
			both, err := t.own(ctx, l)
			if err != nil {
				return nil, fmt.Errorf("%s of %w", t.Name, err)
			}
			for kind, s := range both {
				samples[kind] = append(samples[kind], s)
			}
			continue
		}
		for _, kind := range []Kind{Floor, Gateway} {
			if kind == Floor && t.Alone {
				continue
			}
			if err := l.awaitIdle(ctx, fmt.Sprintf("%s of the %s", t.Name, kind)); err != nil {
				return nil, err
			}
			s, err := l.try(ctx, t, kind)
			if err != nil {
				return nil, fmt.Errorf("%s of the %s: %w", t.Name, kind, err)
			}
			samples[kind] = append(samples[kind], s)
		}
	}
	return samples, nil
}

func (l *Lab) repeats(t Trial) int {
	if t.Repeats > 0 {
		return t.Repeats
	}
	return l.cfg.Scale.Repeats
}

// try runs a trial once, on a fresh server.
func (l *Lab) try(ctx context.Context, t Trial, kind Kind) (_ Sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	at, err := l.start(ctx, kind)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, at.Stop()) }()
	return t.run(ctx, l, at)
}
