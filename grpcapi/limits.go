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

var (
	statusTooManyCalls = status.New(codes.ResourceExhausted,
		"too many calls are open: add replicas, or raise the memory limit and --max-streams")
	statusTooMuch = status.New(codes.ResourceExhausted,
		"not enough memory for another destination: raise the memory limit and --view-memory")
)

// quota is a limit on calls or memory, shared by all client addresses.
//
// While the total usage is below the limit, the usage of a single client address is not limited.
// Once the limit is reached, client addresses with below-average usage are still served until the
// total usage exceeds the limit by one eighth. A client with high usage therefore cannot lock out
// clients with other addresses.
type quota struct {
	limit   int64          // fixed, as are full, refused and log
	full    *status.Status // the status of a call that is refused at the limit
	refused prometheus.Counter
	log     *zap.Logger

	mu       sync.Mutex
	used     int64
	charged  int64                // the sum of by; less than used if some memory is not charged to any address
	by       map[netip.Addr]int64 // charges per address; never 0
	refusing bool                 // whether a refusal has been logged, and not a tenth of the limit has been free since
}

func newQuota(limit int, full *status.Status, refused prometheus.Counter, log *zap.Logger) *quota {
	return &quota{limit: int64(limit), full: full, refused: refused, log: log, by: make(map[netip.Addr]int64)}
}

// The take method charges one unit to a client address. If the address is not allowed to use more,
// nothing is charged, and the result is false.
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

func (q *quota) give(client netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.chargeLocked(client, -1)
	q.addLocked(-1)
}

// The use method increases the total usage by the given amount, without charging a client address.
// The result reports whether the total usage is within the limit.
func (q *quota) use(amount int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(amount)
	return q.used <= q.limit
}

// addLocked increases the total usage of the quota by the given amount, which may be negative. The
// caller must hold q.mu, as for all methods whose names end in Locked.
func (q *quota) addLocked(amount int64) {
	q.used += amount
	if q.used <= q.limit-q.limit/10 {
		q.refusing = false
	}
}

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

func (q *quota) hasRoom() bool { return q.inUse() <= q.limit }

func (q *quota) inUse() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used
}

// mayExceed reports whether a client may be served even though the limit has been reached. Before
// calling mayExceed, the caller must call charge to add any new usage to the client's usage.
func (q *quota) mayExceed(client netip.Addr) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mayExceedLocked(client)
}

func (q *quota) mayExceedLocked(client netip.Addr) bool {
	lessThanAverage := q.by[client]*int64(len(q.by)) < min(q.charged, q.limit)
	return lessThanAverage && q.used <= q.limit+q.limit/8
}

// refuse counts a refused call and returns the error for the client. Only the first refusal is
// logged. Logging resumes once a tenth of the limit is free again.
func (q *quota) refuse(what string) error {
	q.refused.Inc()
	q.mu.Lock()
	first := !q.refusing
	q.refusing = true
	q.mu.Unlock()
	if first {
		q.log.Warn("refusing calls: "+q.full.Message(), zap.String("first", what), zap.Int64("limit", q.limit))
	}
	return q.full.Err()
}

// tap is a tap.ServerInHandle, which gRPC calls when the headers of a call have arrived. Each call
// counts toward the quota until the call's context is canceled.
//
// If the quota is exhausted, the tap method refuses only calls that have no deadline. If a call has
// a deadline, the tap method stores an error in the call's context, and the interceptor refuses the
// call. If the tap method itself refused a call that has a deadline, the timer of the call's
// context would stay in memory until the deadline.
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

type refusalKey struct{}

func refusal(ctx context.Context) error {
	err, _ := ctx.Value(refusalKey{}).(error)
	return err
}

// Reflection is intended for users who debug the API. Reflection responses are large and contain
// the request, so the following limits bound the amount of data that clients can leave unread:
//
//   - At most maxReflections reflection calls run at the same time.
//   - If a client does not read a response within Options.Request, its connection is closed.
//     Further requests wait in the client's flow control window of 64 KiB.
//   - The server sends at most maxReflected reflection responses per connection. The timeout alone
//     would not limit the number of unread short responses, because gRPC can buffer a short
//     response without waiting for the client.
const (
	maxReflections = 10
	maxReflected   = 500
)

var (
	statusReflections = status.New(codes.ResourceExhausted, "too many concurrent reflection calls: try again later")
	statusReflected   = status.New(codes.ResourceExhausted,
		"too many reflection responses on this connection: open a new connection")
)

// limitedReflection is the grpc.ServiceRegistrar that is passed to reflection.Register.
type limitedReflection struct {
	*grpc.Server
	timeout time.Duration // how long a client may take to read a response
	open    atomic.Int32
}

// RegisterService implements grpc.ServiceRegistrar. The registered handlers enforce the limits on
// gRPC reflection calls.
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

type reflectionCall struct {
	grpc.ServerStream
	timeout time.Duration
	conn    *clientConnection // nil if unknown
}

// SendMsg sends a response to the client. If the client does not read the response in time, SendMsg
// closes the connection. Ending only the call would not help, because the call's status would be
// queued behind the unread responses.
func (c *reflectionCall) SendMsg(m any) error {
	if c.conn == nil {
		return status.Error(codes.Internal,
			"reflection is not available, because the server does not use Isthmus's transport credentials")
	}
	if c.conn.reflected.Add(1) > maxReflected {
		return statusReflected.Err()
	}
	due := time.AfterFunc(c.timeout, func() { c.conn.close(closedReflection) })
	defer due.Stop()
	return c.ServerStream.SendMsg(m)
}
