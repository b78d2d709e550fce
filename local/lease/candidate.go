package lease

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Candidate takes part in elections on behalf of its replica. The Candidate records the holder of
// the Lease, and logs changes. While the replica is the leader, the Candidate also holds a value of
// type T that represents the leadership. Use [NewCandidate] to create one. All methods of a
// Candidate are safe for concurrent use.
type Candidate[T any] struct {
	// fixed after construction
	config Config
	what   string
	log    *zap.Logger

	mu         sync.Mutex
	leadership *T
	seen       Status
}

// Status describes a replica's part in an election.
type Status struct {
	Holder  string    // last seen holder; empty if there is none or the Lease is unreadable
	Problem string    // why the Lease is unusable; empty if it is usable
	Leading bool      // whether this replica leads
	Since   time.Time // when Leading last changed
}

// NewCandidate returns the Candidate of a replica that is not the leader yet. The Candidate
// replaces the Observe function of the Config. Log messages use the first argument, such as
// "exported Services", as the name of the objects that the leader writes.
func NewCandidate[T any](what string, c Config, log *zap.Logger) *Candidate[T] {
	s := &Candidate[T]{config: c, what: what, log: log, seen: Status{Since: time.Now()}}
	s.config.Observe = s.observe
	return s
}

// Run calls the package-level function [Run]. When this replica is elected, Run calls the begin
// function to create a value of type T, and passes the value to the lead function.
// [Candidate.Leadership] returns the value until the lead function returns.
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
	switch { // log only transitions, since errors may differ between attempts
	case (err != nil) == (before != ""):
	case err != nil:
		s.log.Error("the Lease for writing "+s.what+" cannot be used; still trying", zap.Error(err))
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

// Leadership returns the current leadership, or nil if this replica is not the leader.
func (s *Candidate[T]) Leadership() *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leadership
}

func (s *Candidate[T]) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// Gauge returns a metric whose value is computed from the current leadership. The value is 0 if
// this replica is not the leader.
func (s *Candidate[T]) Gauge(name, help string, labels prometheus.Labels, value func(*T) float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 {
		if t := s.Leadership(); t != nil {
			return value(t)
		}
		return 0
	})
}
