package election

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Standing is what a replica knows of its election: who holds the Lease, and the term T in which it leads. It logs
// what changes. [NewStanding] makes one. Its methods are safe for concurrent use.
type Standing[T any] struct {
	what, identity string
	log            *zap.Logger

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

// NewStanding returns that of a replica which does not lead yet. what is what the leader writes, for the log.
func NewStanding[T any](what, identity string, log *zap.Logger) *Standing[T] {
	return &Standing[T]{what: what, identity: identity, log: log, seen: Seen{Since: time.Now()}}
}

// Observe is for Config.Observe.
func (s *Standing[T]) Observe(holder string, err error) {
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

// Lead calls run, and has the term as long as that runs.
func (s *Standing[T]) Lead(work context.Context, term *T, run func(context.Context)) {
	s.log.Info("this replica holds the Lease and writes "+s.what, zap.String("identity", s.identity))
	s.set(term)
	run(work)
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
