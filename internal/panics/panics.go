package panics

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"

	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

const (
	MinPause = time.Second     // pause before the first retry
	MaxPause = 5 * time.Minute // maximum pause between two retries

	logAgain  = time.Hour // interval after which the same stack is logged again
	maxStacks = 1000      // maximum number of stacks that are cached as logged; further stacks are only counted
)

// A Where identifies a kind of work. The constants are also the values of the "where" label of the
// metric isthmus_panics_total.
type Where string

const (
	Stream     Where = "stream"     // a call from a proxy; the call ends
	Service    Where = "service"    // an update of a watched service
	Definition Where = "definition" // the definition of a Service of the local cluster
	Profile    Where = "profile"    // an update of a watched profile
	Change     Where = "change"     // the handling of a change in a cluster
	Policy     Where = "policy"     // the Servers of a namespace
	Resource   Where = "resource"   // a linked cluster's lists and watches; the cluster is replaced
)

var everywhere = []Where{Stream, Service, Definition, Profile, Change, Policy, Resource}

// Work identifies a piece of work that is retried separately.
type Work struct {
	Where   Where
	Service federation.ServiceID // the service that the work is for; zero if there is none
	Object  string               // another object that the work is for, such as an address, a namespace or a cluster
	// The Of field is a pointer to the data that the work updates, or nil. The pointer
	// distinguishes between pieces of work for the same service or object. For example, if the last
	// watch of a service ends and a new watch begins, Isthmus creates new data for the service. If
	// work on the new data has failed, the failure remains recorded even if work on the old data
	// succeeds afterward.
	Of any
}

// Failure describes work that has panicked and has not succeeded since.
type Failure struct {
	Work
	adminapi.Failure
}

// Supervisor runs functions and recovers from panics in them. A nil Supervisor runs functions
// without recovering from panics. All methods are safe for concurrent use.
type Supervisor struct {
	log   *zap.Logger
	count *prometheus.CounterVec
	wake  chan struct{} // holds a token if the next retry may be earlier than Run expects

	failing atomic.Int64 // len(failures)

	mu       sync.Mutex // a leaf in the lock order
	failures map[Work]*failure
	panics   uint64               // number of panics so far, of all work
	logged   map[uint64]time.Time // when each stack was logged last, by the hash of the stack
	seed     maphash.Seed
}

type failure struct {
	adminapi.Failure
	number uint64 // the number of the newest panic
	again  func() // nil while the retry is running
}

// New returns a Supervisor. It starts no goroutines.
func New(log *zap.Logger) *Supervisor {
	s := &Supervisor{
		log: log,
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "isthmus_panics_total",
			Help: "Panics that Isthmus has recovered from, by kind of work.",
		}, []string{"where"}),
		wake:     make(chan struct{}, 1),
		failures: make(map[Work]*failure),
		logged:   make(map[uint64]time.Time),
		seed:     maphash.MakeSeed(),
	}
	for _, where := range everywhere {
		s.count.WithLabelValues(string(where))
	}
	return s
}

func (s *Supervisor) Describe(ch chan<- *prometheus.Desc) { s.count.Describe(ch) }

func (s *Supervisor) Collect(ch chan<- prometheus.Metric) { s.count.Collect(ch) }

func (s *Supervisor) Count(where Where) int {
	var m dto.Metric
	if err := s.count.WithLabelValues(string(where)).Write(&m); err != nil {
		return 0
	}
	return int(m.GetCounter().GetValue())
}

// Do calls the function f. If f panics, [Supervisor.Run] pauses, and then calls the function that
// was passed to Do as the last argument. That function must cause another call to Do for the same
// work. If f returns normally, Do removes the work from [Supervisor.Failures]. If another call for
// the same work has panicked in the meantime, the work remains in Failures.
func (s *Supervisor) Do(w Work, f, again func()) {
	if s == nil {
		f()
		return
	}
	before := s.newestPanic(w)
	reason := s.call(w, f)
	switch {
	case reason != nil:
		s.failed(w, reason, again)
	case before != 0:
		s.succeeded(w, before)
	}
}

func (s *Supervisor) call(w Work, f func()) (reason any) {
	defer func() {
		if reason = recover(); reason != nil {
			s.Report(w, reason)
		}
	}()
	f()
	return nil
}

// Report counts and logs a panic. Call Report in the deferred function that has just recovered from
// the panic.
func (s *Supervisor) Report(w Work, reason any) {
	s.count.WithLabelValues(string(w.Where)).Inc()
	if !s.newStack() {
		return
	}
	fields := []zap.Field{zap.String("where", string(w.Where))}
	if w.Service != (federation.ServiceID{}) {
		fields = append(fields, zap.Stringer("service", w.Service))
	}
	if w.Object != "" {
		fields = append(fields, zap.String("object", text.Clean(w.Object, text.Short)))
	}
	fields = append(fields, zap.String("panic", Text(reason)), zap.ByteString("stack", debug.Stack()))
	s.log.Error("panic: this is a bug in Isthmus; the same stack trace is logged at most once an hour", fields...)
}

// Text formats the reason for a panic so that it is safe for logs and pages. The reason may contain
// strings from a cluster or a client.
func Text(reason any) string { return text.Clean(fmt.Sprint(reason), text.Long) }

// newStack reports whether the panic's stack is new, that is, has not been logged in the last hour.
func (s *Supervisor) newStack() bool {
	pcs := make([]uintptr, 64)
	pcs = pcs[:runtime.Callers(2, pcs)]
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, pc := range pcs {
		maphash.WriteComparable(&h, pc)
	}
	stack := h.Sum64()
	if at, ok := s.logged[stack]; ok && now.Sub(at) < logAgain {
		return false
	}
	if len(s.logged) >= maxStacks {
		maps.DeleteFunc(s.logged, func(_ uint64, at time.Time) bool { return now.Sub(at) >= logAgain })
	}
	if len(s.logged) >= maxStacks {
		return false
	}
	s.logged[stack] = now
	return true
}

// newestPanic returns the sequence number of the most recent panic in the given piece of work. If
// the piece of work has never panicked, or has succeeded since its last panic, the result is zero.
func (s *Supervisor) newestPanic(w Work) uint64 {
	if s.failing.Load() == 0 { // the common case
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.failures[w]; f != nil {
		return f.number
	}
	return 0
}

func (s *Supervisor) failed(w Work, reason any, again func()) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.failures[w]
	if f == nil {
		f = &failure{Failure: adminapi.Failure{Where: string(w.Where), Since: now}}
		s.failures[w] = f
		s.failing.Store(int64(len(s.failures)))
	}
	s.panics++
	f.number = s.panics
	f.Panics++
	f.Panic = Text(reason)
	f.Next = now.Add(PauseAfter(f.Panics))
	f.again = again
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// PauseAfter returns the pause before the retry that follows the given number of consecutive
// panics.
func PauseAfter(panics int) time.Duration {
	pause := MinPause
	for range panics - 1 {
		if pause *= 2; pause >= MaxPause {
			return MaxPause
		}
	}
	return pause
}

// Supervisor.succeeded clears any earlier failure recorded for work that has now succeeded. The
// caller passes the number that newestPanic returned before the work began. If the work has
// panicked since then, the failure remains recorded.
func (s *Supervisor) succeeded(w Work, before uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.failures[w]
	if f == nil || f.number != before {
		return
	}
	delete(s.failures, w)
	s.failing.Store(int64(len(s.failures)))
	s.log.Info("work that has panicked succeeds again",
		zap.String("where", string(w.Where)), zap.Stringer("service", w.Service),
		zap.Int("panics", f.Panics), zap.Time("since", f.Since))
}

// Run calls the retry functions that are due, one after the other, until ctx is done.
func (s *Supervisor) Run(ctx context.Context) error {
	for {
		due, next := s.due(time.Now())
		for _, again := range due {
			if ctx.Err() == nil {
				again()
			}
		}
		if len(due) > 0 {
			continue // more retries may have become due meanwhile
		}
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-timer:
		}
	}
}

// Supervisor.due removes and returns the retries that are due, sorted by time. The second result is
// the time of the next retry, or the zero time if no retry is scheduled.
func (s *Supervisor) due(now time.Time) (due []func(), next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*failure
	for _, f := range s.failures {
		switch {
		case f.again == nil:
		case !f.Next.After(now):
			list = append(list, f)
		case next.IsZero() || f.Next.Before(next):
			next = f.Next
		}
	}
	slices.SortFunc(list, func(a, b *failure) int { return a.Next.Compare(b.Next) })
	for _, f := range list {
		due = append(due, f.again)
		f.again = nil
	}
	return due, next
}

// Failures lists the pieces of work that have panicked and have not succeeded since, sorted by
// service.
func (s *Supervisor) Failures() []Failure {
	if s == nil || s.failing.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Failure, 0, len(s.failures))
	for w, f := range s.failures {
		list = append(list, Failure{w, f.Failure})
	}
	slices.SortFunc(list, func(a, b Failure) int {
		return cmp.Or(
			cmp.Compare(a.Service.Namespace, b.Service.Namespace), cmp.Compare(a.Service.Name, b.Service.Name),
			cmp.Compare(a.Work.Where, b.Work.Where), cmp.Compare(a.Object, b.Object))
	})
	return list
}
