package lease

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Candidate is a replica's part in elections, and what it knows of them: who holds the Lease, and its leadership T
// while it leads. It logs what changes. [NewCandidate] makes one. Its methods are safe for concurrent use.
type Candidate[T any] struct {
	// fixed
	config Config
	what   string
	log    *zap.Logger

	mu         sync.Mutex
	leadership *T
	seen       Seen
}

// Seen is what a replica has seen of its Lease.
type Seen struct {
	Holder  string    // as last seen; empty: none, or it can't be read
	Problem string    // why the Lease can't be used; empty: it can
	Leading bool      // this replica leads
	Since   time.Time // it leads, or does not
}

// NewCandidate returns that of a replica which does not lead yet. what is what the leader writes, for the log.
// Config.Observe is set.
func NewCandidate[T any](what string, c Config, log *zap.Logger) *Candidate[T] {
	s := &Candidate[T]{config: c, what: what, log: log, seen: Seen{Since: time.Now()}}
	s.config.Observe = s.observe
	return s
}

// Run is [Run]. It has the leadership that begin returns as long as lead runs.
func (s *Candidate[T]) Run(ctx context.Context, begin func(*Leadership) *T, lead func(context.Context, *T)) error {
	return Run(ctx, s.config, func(work context.Context, lease *Leadership) { s.lead(work, begin(lease), lead) })
}

func (s *Candidate[T]) observe(holder string, err error) {
	s.mu.Lock()
	before := s.seen.Problem
	s.seen.Holder = holder
	s.seen.Problem = ""
	if err != nil {
		s.seen.Problem = err.Error()
	}
	s.mu.Unlock()
	switch { // reasons may differ from attempt to attempt
	case (err != nil) == (before != ""):
	case err != nil:
		s.log.Error("the Lease for writing "+s.what+" can't be used; still trying", zap.Error(err))
	default:
		s.log.Info("the Lease for writing " + s.what + " can be used again")
	}
}

func (s *Candidate[T]) lead(work context.Context, leadership *T, lead func(context.Context, *T)) {
	s.log.Info("this replica holds the Lease and writes "+s.what, zap.String("identity", s.config.Identity))
	s.set(leadership)
	lead(work, leadership)
	s.set(nil)
	s.log.Info("this replica no longer writes "+s.what, zap.NamedError("reason", context.Cause(work)))
}

func (s *Candidate[T]) set(leadership *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leadership = leadership
	s.seen.Leading = leadership != nil
	s.seen.Since = time.Now()
}

// Leadership returns the present leadership; nil: this replica does not lead.
func (s *Candidate[T]) Leadership() *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leadership
}

// Seen returns what has been seen.
func (s *Candidate[T]) Seen() Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// Gauge returns a metric with a value of the present leadership; 0 while there is none.
func (s *Candidate[T]) Gauge(name, help string, labels prometheus.Labels, value func(*T) float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 {
		if t := s.Leadership(); t != nil {
			return value(t)
		}
		return 0
	})
}
