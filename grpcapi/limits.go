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

// Statuses of calls that are refused because a limit is reached.
var (
	statusTooManyCalls = status.New(codes.ResourceExhausted,
		"too many calls are open: add replicas, or raise the memory limit and --max-streams")
	statusTooMuch = status.New(codes.ResourceExhausted,
		"no memory is left for further destinations: raise the memory limit and --view-memory")
)

// quota is a limit on calls or memory that client addresses share.
//
// Below the limit, each address gets what it asks for. At the limit, an address that uses less than
// the average is still served, until usage exceeds the limit by an eighth. So the client that uses
// most can't lock out clients of other addresses.
type quota struct {
	limit   int64          // fixed, as are full, refused and log
	full    *status.Status // the status of a call that is refused at the limit
	refused prometheus.Counter
	log     *zap.Logger

	mu       sync.Mutex
	used     int64
	charged  int64                // the sum of by; less than used if some memory is charged to no address
	by       map[netip.Addr]int64 // charges per address; never 0
	refusing bool                 // a refusal was logged, and less than a tenth of the limit has been free since
}

func newQuota(limit int, full *status.Status, refused prometheus.Counter, log *zap.Logger) *quota {
	return &quota{limit: int64(limit), full: full, refused: refused, log: log, by: make(map[netip.Addr]int64)}
}

// take takes one unit for an address. If the address may not have more, take returns false and
// takes nothing.
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

// give returns the unit that take took.
func (q *quota) give(client netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.chargeLocked(client, -1)
	q.addLocked(-1)
}

// use changes the amount in use without charging an address. It reports whether the new amount is
// within the limit.
func (q *quota) use(amount int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(amount)
	return q.used <= q.limit
}

// addLocked changes the amount in use. The caller holds q.mu, as for all methods named …Locked.
func (q *quota) addLocked(amount int64) {
	q.used += amount
	if q.used <= q.limit-q.limit/10 {
		q.refusing = false
	}
}

// charge changes the amount that an address is charged.
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

// hasRoom reports whether the amount in use is within the limit.
func (q *quota) hasRoom() bool { return q.inUse() <= q.limit }

func (q *quota) inUse() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used
}

// mayExceed reports whether a client may keep its charges although the limit is reached.
func (q *quota) mayExceed(client netip.Addr) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mayExceedLocked(client)
}

func (q *quota) mayExceedLocked(client netip.Addr) bool {
	lessThanAverage := q.by[client]*int64(len(q.by)) < min(q.charged, q.limit)
	return lessThanAverage && q.used <= q.limit+q.limit/8
}

// refuse counts a refused call and returns its error. It logs the first refusal, and the next one
// after a tenth of the limit has been free.
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

// tap is a tap.ServerInHandle, which gRPC calls when the headers of a call have arrived. tap counts
// each call until its context is canceled.
//
// tap does not refuse a call that has a deadline. gRPC would not cancel the context of such a call,
// and its timer would use memory until the deadline, which the client chooses. The interceptor
// refuses the call instead.
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

// refusalKey is the context key of the error that refuses a call.
type refusalKey struct{}

// refusal returns the error that refuses the call with this context, or nil.
func refusal(ctx context.Context) error {
	err, _ := ctx.Value(refusalKey{}).(error)
	return err
}

// Reflection is for people who debug. Its responses are large and repeat the request, so these
// limits bound how much unread data clients can leave:
//
//   - At most maxReflections calls run at a time.
//   - If the client does not read a response within Options.Request, its connection is closed.
//     Requests that it sends meanwhile wait in its flow control window of 64 KiB.
//   - A connection gets at most maxReflected responses. Responses of short calls fit into buffers,
//     where no timeout applies.
const (
	maxReflections = 10
	maxReflected   = 500
)

// Statuses of calls beyond the limits on reflection.
var (
	statusReflections = status.New(codes.ResourceExhausted, "too many reflection calls at a time: try again later")
	statusReflected   = status.New(codes.ResourceExhausted,
		"too many answers of reflection on one connection: use a new one")
)

// limitedReflection is the gRPC server that reflection.Register gets.
type limitedReflection struct {
	*grpc.Server
	timeout time.Duration // for the client to read a response
	open    atomic.Int32
}

// RegisterService implements grpc.ServiceRegistrar. It registers handlers that enforce the limits.
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

// reflectionCall is one reflection call.
type reflectionCall struct {
	grpc.ServerStream
	timeout time.Duration
	conn    *clientConnection // nil if unknown
}

// SendMsg sends a response. If the client does not read it in time, the connection is closed.
// Ending only the call would not help, because its status would wait behind the responses.
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
