package grpcapi

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/grpcapi/wire"
)

// statusTooMuch refuses a call that would take more memory than there is for views.
var statusTooMuch = status.New(codes.ResourceExhausted, "the gateway has no memory left for further calls and destinations of this client: see --view-memory")

// budget is the memory that the views of both RPCs may take together, messages that are
// encoded for one stream, and the calls of all connections. It is an estimate: of a view,
// by the newest set that a stream has been sent.
//
// Clients can ask for any number of ports, hostnames and addresses, and open any number of
// calls. What is over budget is refused to those who are not served yet, unless their
// address takes less than others (clients.mayExceed); a view that streams use stays, and so
// does one that such a stream needs because its service or its node has changed. Whatever
// views take, half of the budget is left for calls.
type budget struct {
	max     int64 // fixed, as are refused and log
	refused prometheus.Counter
	log     *zap.Logger

	used      atomic.Int64
	calls     atomic.Int64 // what calls take of used
	idle      atomic.Int64 // what idle views take of used: they make room
	clients   clients
	collected atomic.Int64 // when a refused call has begun a collection last, as Unix nanoseconds; 0: never
	refusing  atomic.Bool  // a call has been refused since there was memory last, and logged
}

func newBudget(o Options) *budget {
	return &budget{max: int64(o.ViewBytes), log: o.Log, refused: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "isthmus_streams_refused_total", Help: "Calls that were refused because calls and views take as much memory as they may.",
	})}
}

// take takes memory, and returns whether that is within the budget.
func (b *budget) take(bytes int64) bool { return b.used.Add(bytes) <= b.max }

// give returns memory.
func (b *budget) give(bytes int64) {
	if b.used.Add(-bytes) < b.max/10*9 && b.refusing.Load() {
		b.refusing.Store(false)
	}
}

// fits reports whether there is so much memory left.
func (b *budget) fits(bytes int64) bool { return b.used.Load()+bytes <= b.max }

// roomFor reports whether there is so much memory left, for which idle views are closed.
func (s *Server) roomFor(bytes int64) bool {
	s.getViews.makeRoom(bytes)
	s.profileViews.makeRoom(bytes)
	return s.budget.fits(bytes)
}

// admit returns the error with which a stream is refused for which there is no memory; nil:
// it is served. fits is whether its view is within the budget. began is what the view takes
// if the stream is the first to need it, and alone what its messages take if they are for it
// alone. Both count for the client's address until the stream is closed.
func (st *stream) admit(what string, fits bool, began, alone int) error {
	s := st.server
	st.owes = int64(began + alone)
	s.budget.clients.add(st.conn.client(), st.owes)
	if (fits || s.roomFor(0)) && (alone == 0 || s.roomFor(int64(alone))) || s.budget.clients.mayExceed(st.conn.client(), s.budget.max) {
		return nil
	}
	return s.budget.refuse(what)
}

// refuse counts a call that is refused, and returns its error. It logs the first one,
// and again when there has been memory in between.
func (b *budget) refuse(what string) error {
	b.refused.Inc()
	if b.refusing.CompareAndSwap(false, true) {
		b.log.Warn("calls are refused: calls and views take as much memory as they may", zap.String("first", what), zap.Int64("bytes", b.max))
	}
	return statusTooMuch.Err()
}

// minHeld is the least size of a message that hold takes memory for. A stream can have
// 64 KiB of smaller ones waiting: gRPC's limit.
const minHeld = 4 << 10

// hold takes the memory of messages for one stream alone until nothing uses them any
// more: gRPC keeps them until the client takes them. It returns the messages.
func (b *budget) hold(frames []*wire.Frame) []*wire.Frame {
	for _, f := range frames {
		if size := f.Size(); size >= minHeld {
			b.used.Add(int64(size))
			f.OnFree(func(bytes int) { b.give(int64(bytes)) })
		}
	}
	return frames
}
