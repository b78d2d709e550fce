package audit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

const (
	// Settle is how long a difference must last unchanged to count.
	Settle = 10 * time.Second
	// MinInterval is the shortest Interval.
	MinInterval = 10 * time.Second
	// MaxInterval is the longest Interval.
	MaxInterval = 7 * 24 * time.Hour

	relistPause = time.Minute // between two new lists of a resource of a cluster
	maxLooks    = 12          // at a service of a cluster, Settle apart
	shortTick   = time.Second // how often it is looked what is due, at most
	ticks       = 600         // of an Interval
)

// Cluster is what an Auditor needs of a [cluster.Cluster].
type Cluster interface {
	Look(ctx context.Context, svc federation.ServiceID, admit func(context.Context) error) ([]cluster.Looked, error)
	Relist(resource string)
}

// Options are an Auditor's. Services and Cluster are needed.
type Options struct {
	// Interval is the time in which every watched service is audited once; 0: none is.
	Interval time.Duration
	// Services returns the services that are watched.
	Services func() []federation.WatchedService
	// Cluster returns a cluster and its state, which is empty if there is no such cluster.
	// Only those that are ready are asked.
	Cluster func(federation.ClusterName) (Cluster, cluster.State)
	// Clusters returns the clusters that there are, for metrics; nil: none.
	Clusters func() []federation.ClusterName
	// Report, if set, is called once for each difference that is counted. It must not block.
	Report     func(Finding)
	Log        *zap.Logger           // nil: no logs
	Registerer prometheus.Registerer // nil: no metrics
}

// Finding is a difference that has been counted. Its texts are fit to be shown.
type Finding struct {
	Cluster  string
	Service  string // namespace/name in that cluster
	Resource string
	Object   string // namespace/name
	Problem  string
}

// Auditor audits the services that are watched.
type Auditor struct {
	// fixed
	opts Options
	seed maphash.Seed

	mu      sync.Mutex // guards the rest, all that workers have, and results
	round   round
	workers map[federation.ClusterName]*worker
	counts  map[federation.ClusterName]*counts
	results []*result // newest first
	last    time.Time
	total   uint64
}

// round is one Interval.
type round struct {
	first, began time.Time // of the first one, of this one
	done         int       // services that have been audited in it
}

// New checks the options and registers metrics. It starts nothing.
func New(o Options) (*Auditor, error) {
	if o.Services == nil || o.Cluster == nil {
		return nil, errors.New("audit: Options.Services and Options.Cluster are needed")
	}
	if o.Interval != 0 && (o.Interval < MinInterval || o.Interval > MaxInterval) {
		return nil, fmt.Errorf("audit: Options.Interval is %v, which is not between %v and %v", o.Interval, MinInterval, MaxInterval)
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Clusters == nil {
		o.Clusters = func() []federation.ClusterName { return nil }
	}
	a := &Auditor{
		opts: o, seed: maphash.MakeSeed(),
		workers: make(map[federation.ClusterName]*worker), counts: make(map[federation.ClusterName]*counts),
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(newMetrics(a)); err != nil {
			return nil, fmt.Errorf("audit: metrics: %w", err)
		}
	}
	return a, nil
}

// Run audits until ctx ends, and returns once all its goroutines have ended. Call it once.
func (a *Auditor) Run(ctx context.Context) error {
	if a.opts.Interval == 0 {
		<-ctx.Done()
		return nil
	}
	var running sync.WaitGroup
	defer running.Wait()
	before := time.Now()
	a.mu.Lock()
	a.round = round{first: before, began: before}
	a.mu.Unlock()
	tick := time.NewTicker(max(a.opts.Interval/ticks, shortTick))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := time.Now()
		a.begin(ctx, &running, before, now)
		before = now
	}
}

// begin gives workers what has become due between two times.
func (a *Auditor) begin(ctx context.Context, running *sync.WaitGroup, before, now time.Time) {
	services, clusters := a.opts.Services(), a.opts.Clusters()
	a.logLate(now)
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := now.Sub(a.round.first) / a.opts.Interval; a.round.first.Add(n * a.opts.Interval).After(a.round.began) {
		a.round.began, a.round.done = a.round.first.Add(n*a.opts.Interval), 0
	}
	a.forget(clusters, now)
	from, to := before.Sub(a.round.first), now.Sub(a.round.first)
	for _, s := range services {
		if !a.due(a.phase(s.Service), from, to) {
			continue
		}
		t := &turn{left: len(s.Members)}
		if t.left == 0 {
			a.round.done++
		}
		for _, m := range s.Members {
			w := a.worker(m.Cluster)
			w.add(m.Service, t, now)
			if !w.runs {
				w.runs = true
				running.Go(func() { a.work(ctx, w) })
			}
		}
	}
}

// phase returns when within each Interval a service is due.
func (a *Auditor) phase(id federation.ServiceID) time.Duration {
	const mix = 0x9e3779b97f4a7c15
	hash := maphash.String(a.seed, id.Namespace)*mix ^ maphash.String(a.seed, id.Name)
	return time.Duration(hash % uint64(a.opts.Interval))
}

// due reports whether a phase has come between two times since the first round began.
func (a *Auditor) due(phase, before, now time.Duration) bool {
	interval := a.opts.Interval
	return (now-phase+interval)/interval > (before-phase+interval)/interval
}

// logLate finds out which clusters have services that have waited for longer than an Interval,
// and logs when that begins.
func (a *Auditor) logLate(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.workers {
		late := len(w.waiting) > 0 && now.Sub(w.waiting[0].since) > a.opts.Interval
		if late && !w.late {
			a.opts.Log.Warn("audit: there is more to compare than one request a second allows; it goes on as fast as that",
				zap.Stringer("cluster", w.name), zap.Duration("interval", a.opts.Interval), zap.Int("waiting", len(w.waiting)))
		}
		w.late = late
	}
}

// forget forgets clusters that are not there any more, and workers that have long had nothing
// to do. a.mu is held.
func (a *Auditor) forget(clusters []federation.ClusterName, now time.Time) {
	there := make(map[federation.ClusterName]bool, len(clusters))
	for _, c := range clusters {
		there[c] = true
	}
	for name := range a.counts {
		if !there[name] {
			delete(a.counts, name)
		}
	}
	for name, w := range a.workers {
		if !w.runs && now.Sub(w.rested) > 2*relistPause {
			delete(a.workers, name)
		}
	}
}

// turn is one audit of a service, with all its members.
type turn struct{ left int } // members, under Auditor.mu

// ended counts a member that has been audited. a.mu is held.
func (a *Auditor) ended(turns []*turn) {
	for _, t := range turns {
		if t.left--; t.left == 0 {
			a.round.done++
		}
	}
}
