package grpcapi

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
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
	charged  int64                // the sum of by, of which used may be more: memory that no address is charged for
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
	q.addLocked(1)
	q.chargeLocked(client, 1)
	if q.used <= q.limit || q.mayExceedLocked(client) {
		return true
	}
	q.chargeLocked(client, -1)
	q.addLocked(-1)
	return false
}

// give gives back what take has taken.
func (q *quota) give(client netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.chargeLocked(client, -1)
	q.addLocked(-1)
}

// use changes how much is in use, and returns whether that is within the limit. No address is charged.
func (q *quota) use(amount int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(amount)
	return q.used <= q.limit
}

// addLocked changes how much is in use. q.mu is held, as by all methods with such a name.
func (q *quota) addLocked(amount int64) {
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
	q.charged += amount
	now := q.by[client] + amount
	if now == 0 {
		delete(q.by, client)
		return
	}
	q.by[client] = now
}

// hasRoom reports whether what is in use is within the limit.
func (q *quota) hasRoom() bool { return q.inUse() <= q.limit }

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
	lessThanAverage := q.by[client]*int64(len(q.by)) < min(q.charged, q.limit)
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

// tap is a tap.ServerInHandle: gRPC calls it when the headers of a call have arrived. It counts a call of any method
// until the call's end, which cancels the call's context.
//
// It does not refuse a call with a deadline itself, because gRPC would not cancel the context of such a call. Its
// timer would take memory until the deadline, which the client chooses. The interceptor refuses these calls.
func (q *quota) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	client := connectionOf(ctx).client()
	if q.take(client) {
		context.AfterFunc(ctx, func() { q.give(client) })
		return ctx, nil
	}
	err := q.refuse(info.FullMethodName + " of " + client.String())
	if _, timed := ctx.Deadline(); timed {
		return context.WithValue(ctx, refusalKey{}, err), nil
	}
	return ctx, err
}

// refusalKey is the key of the error that refuses a call, in the call's context.
type refusalKey struct{}

// refusal returns the error that refuses a call with this context, or nil.
func refusal(ctx context.Context) error {
	err, _ := ctx.Value(refusalKey{}).(error)
	return err
}

// Reflection is for people who debug. Its answers are large, and repeat what was asked,
// so what clients can leave of them is bounded:
//
//   - There are maxReflections calls at a time.
//   - The client takes each answer within Options.Request, or its connection is closed.
//     Requests that it sends meanwhile wait in its window, 64 KiB of them.
//   - A connection has maxReflected answers in all: those of short calls fit into
//     buffers, where no time limit notices them.
const (
	maxReflections = 10
	maxReflected   = 500
)

// Statuses of calls beyond these limits.
var (
	statusReflections = status.New(codes.ResourceExhausted, "too many reflection calls at a time: try again later")
	statusReflected   = status.New(codes.ResourceExhausted,
		"too many answers of reflection on one connection: use a new one")
)

// limitedReflection is a gRPC server, as reflection.Register sees it.
type limitedReflection struct {
	*grpc.Server
	timeout time.Duration // for a client to take an answer
	open    atomic.Int32
}

// RegisterService implements grpc.ServiceRegistrar. It registers the service with
// handlers that keep the limits.
func (l *limitedReflection) RegisterService(desc *grpc.ServiceDesc, impl any) {
	limited := *desc
	limited.Streams = nil
	for _, stream := range desc.Streams {
		handle := stream.Handler
		stream.Handler = func(srv any, ss grpc.ServerStream) error {
			defer l.open.Add(-1)
			if l.open.Add(1) > maxReflections {
				return statusReflections.Err()
			}
			return handle(srv, &reflectionCall{ss, l.timeout, connectionOf(ss.Context())})
		}
		limited.Streams = append(limited.Streams, stream)
	}
	l.Server.RegisterService(&limited, impl)
}

// reflectionCall is a call of reflection.
type reflectionCall struct {
	grpc.ServerStream
	timeout time.Duration
	conn    *clientConnection // nil: not known
}

// SendMsg sends an answer. If the client does not take it in time, the connection is
// closed: the call's status alone would wait behind the answers.
func (c *reflectionCall) SendMsg(m any) error {
	if c.conn == nil {
		return status.Error(codes.Internal, "the gateway can't bound reflection without its own transport credentials")
	}
	if c.conn.reflected.Add(1) > maxReflected {
		return statusReflected.Err()
	}
	due := time.AfterFunc(c.timeout, func() { c.conn.close(closedReflection) })
	defer due.Stop()
	return c.ServerStream.SendMsg(m)
}
