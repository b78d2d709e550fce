package lease

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Standing is a replica's part in elections, and what it knows of them: who holds the Lease, and the term T in which it leads. It
// logs what changes. [NewStanding] makes one. Its methods are safe for concurrent use.
type Standing[T any] struct {
	// fixed
	config Config
	what   string
	log    *zap.Logger

	mu   sync.Mutex
	term *T
	seen Seen
}

// Seen is what a replica has seen of its Lease.
type Seen struct {
	Holder  string    // as last seen; empty: none, or it can't be read
	Problem string    // why the Lease can't be used; empty: it can
	Leading bool      // this replica leads
	Since   time.Time // it leads, or does not
}

// NewStanding returns that of a replica which does not lead yet. what is what the leader writes, for the log. Config.Observe is set.
func NewStanding[T any](what string, c Config, log *zap.Logger) *Standing[T] {
	s := &Standing[T]{config: c, what: what, log: log, seen: Seen{Since: time.Now()}}
	s.config.Observe = s.observe
	return s
}

// Run is [Run]. It has the term that begin returns as long as lead runs.
func (s *Standing[T]) Run(ctx context.Context, begin func(*Term) *T, lead func(context.Context, *T)) error {
	return Run(ctx, s.config, func(work context.Context, lease *Term) { s.lead(work, begin(lease), lead) })
}

func (s *Standing[T]) observe(holder string, err error) {
	s.mu.Lock()
	before := s.seen.Problem
	s.seen.Holder, s.seen.Problem = holder, ""
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

func (s *Standing[T]) lead(work context.Context, term *T, lead func(context.Context, *T)) {
	s.log.Info("this replica holds the Lease and writes "+s.what, zap.String("identity", s.config.Identity))
	s.set(term)
	lead(work, term)
	s.set(nil)
	s.log.Info("this replica no longer writes "+s.what, zap.NamedError("reason", context.Cause(work)))
}

func (s *Standing[T]) set(term *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term, s.seen.Leading, s.seen.Since = term, term != nil, time.Now()
}

// Term returns the present term; nil: this replica does not lead.
func (s *Standing[T]) Term() *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term
}

// Seen returns what has been seen.
func (s *Standing[T]) Seen() Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// Gauge returns a metric with a value of the present term; 0 while there is none.
func (s *Standing[T]) Gauge(name, help string, labels prometheus.Labels, value func(*T) float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 {
		if t := s.Term(); t != nil {
			return value(t)
		}
		return 0
	})
}
