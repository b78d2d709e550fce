package grpcapi

import (
	"context"
	"net/netip"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// The statuses of calls that are refused because a limit is reached.
var (
	statusTooManyCalls = status.New(codes.ResourceExhausted,
		"too many calls are open: add replicas, or raise the memory limit and --max-streams")
	statusTooMuch = status.New(codes.ResourceExhausted,
		"no memory is left for further destinations: raise the memory limit and --view-memory")
)

// quota is a limited number of calls, or a limited amount of memory, that client addresses share.
//
// Up to the limit every address gets what it asks for. At the limit an address that has less than the average
// address is still served, until an eighth more than the limit is in use. So the client that has most can't
// lock out clients of other addresses.
type quota struct {
	limit   int64          // fixed, as are full, refused and log
	full    *status.Status // refuses a call at the limit
	refused prometheus.Counter
	log     *zap.Logger

	mu       sync.Mutex
	used     int64
	owed     int64                // the sum of by, of which used may be more: memory that no address is charged for
	by       map[netip.Addr]int64 // what each address is charged for; no value is 0
	refusing bool                 // a call was refused and logged since a tenth of the limit was free
}

func newQuota(limit int, full *status.Status, refused prometheus.Counter, log *zap.Logger) *quota {
	return &quota{limit: int64(limit), full: full, refused: refused, log: log, by: make(map[netip.Addr]int64)}
}

// take takes 1 for an address. It returns false, and takes nothing, if the address may not have more.
func (q *quota) take(client netip.Addr) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(1)
	q.chargeLocked(client, 1)
	if q.used <= q.limit || q.mayExceedLocked(client) {
		return true
	}
	q.chargeLocked(client, -1)
	q.add(-1)
	return false
}

// give gives back what take has taken.
func (q *quota) give(client netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.chargeLocked(client, -1)
	q.add(-1)
}

// use changes how much is in use, and returns whether that is within the limit. No address is charged.
func (q *quota) use(amount int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(amount)
	return q.used <= q.limit
}

// add changes how much is in use. q.mu is held.
func (q *quota) add(amount int64) {
	q.used += amount
	if q.used <= q.limit-q.limit/10 {
		q.refusing = false
	}
}

// charge changes what an address is charged for.
func (q *quota) charge(client netip.Addr, amount int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.chargeLocked(client, amount)
}

func (q *quota) chargeLocked(client netip.Addr, amount int64) {
	q.owed += amount
	if now := q.by[client] + amount; now != 0 {
		q.by[client] = now
	} else {
		delete(q.by, client)
	}
}

// fits reports whether so much more is within the limit.
func (q *quota) fits(amount int64) bool { return q.inUse()+amount <= q.limit }

func (q *quota) inUse() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used
}

// mayExceed reports whether a client may have what it is charged for, although the limit is reached.
func (q *quota) mayExceed(client netip.Addr) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mayExceedLocked(client)
}

func (q *quota) mayExceedLocked(client netip.Addr) bool {
	lessThanAverage := q.by[client]*int64(len(q.by)) < min(q.owed, q.limit)
	return lessThanAverage && q.used <= q.limit+q.limit/8
}

// refuse counts a call that is refused, and returns its error. It logs the first one, and again after a tenth of
// the limit has been free.
func (q *quota) refuse(what string) error {
	q.refused.Inc()
	q.mu.Lock()
	first := !q.refusing
	q.refusing = true
	q.mu.Unlock()
	if first {
		q.log.Warn("calls are refused: "+q.full.Message(), zap.String("first", what), zap.Int64("limit", q.limit))
	}
	return q.full.Err()
}

// refusalKey is the key of the error that refuses a call, in the call's context.
type refusalKey struct{}

// refusal returns the error that refuses a call with this context, or nil.
func refusal(ctx context.Context) error {
	err, _ := ctx.Value(refusalKey{}).(error)
	return err
}

// tap is a tap.ServerInHandle: gRPC calls it when the headers of a call have arrived. It counts a call of any method
// until the call's end, which cancels the call's context.
//
// It does not refuse a call with a deadline itself, because gRPC would not cancel the context of such a call. Its
// timer would take memory until the deadline, which the client chooses. The interceptor refuses these calls.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	client := connectionOf(ctx).client()
	if s.calls.take(client) {
		context.AfterFunc(ctx, func() { s.calls.give(client) })
		return ctx, nil
	}
	err := s.calls.refuse(info.FullMethodName + " of " + client.String())
	if _, timed := ctx.Deadline(); timed {
		return context.WithValue(ctx, refusalKey{}, err), nil
	}
	return ctx, err
}

// roomFor reports whether so much memory is left for views. It closes idle views to make room.
func (s *Server) roomFor(bytes int64) bool {
	s.getViews.makeRoom(bytes)
	s.profileViews.makeRoom(bytes)
	return s.views.fits(bytes)
}
