package grpcapi

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

// sink sends a stream's messages; it is a part of grpc.ServerStream.
type sink interface{ SendMsg(m any) error }

// producer produces the messages of one stream: a getStream or a profileStream. serve calls begin
// and first once, then next again and again. Errors end the stream, and have a gRPC code.
type producer interface {
	common() *stream
	// name returns the full authority of the destination.
	name() string
	// begin waits until the first set or profile is known. It returns an error if the call is refused.
	begin(context.Context) error
	// first returns the first messages. serve calls it after begin, once the stream is admitted.
	first() []*wire.Frame
	// next waits until there are messages to send, and returns them.
	next(context.Context) ([]*wire.Frame, error)
	// close releases the view and the timers.
	close()
}

// statusWriter is gRPC's transport stream, which can end a call from any goroutine:
// WriteStatus sends the status after all earlier messages, cancels the call's context
// and so frees a blocked SendMsg. Only the first call has an effect.
//
// To cancel the context alone, as from a tap handle, is not enough: grpc-go then
// answers Canceled itself, before the handler can return Unavailable. WriteStatus is
// not part of gRPC's API: transportOf finds it by its signature. If a release of
// grpc-go hides it, every stream ends with Internal, and every test here fails.
type statusWriter interface{ WriteStatus(*status.Status) error }

// The statuses of streams that another goroutine ends.
var (
	statusDraining = status.New(codes.Unavailable, "the gateway is shutting down")
	statusStalled  = status.New(codes.Unavailable, "the proxy has taken no update for too long")
)

// stream is what the streams of both RPCs have in common. Only its handler's
// goroutine uses it; end alone may be called by any.
//
// There is no queue: a stream remembers what it has sent last, and what changes in
// between is never sent. So a slow proxy blocks its own stream only.
type stream struct {
	server    *Server
	out       sink
	transport statusWriter

	viewFits bool  // the view is within the limit of Server.viewMemory, or was admitted
	viewCost int64 // bytes that the view takes, if this stream was the first to need it; 0 otherwise

	// Times are Server.clock's.
	conn    *clientConnection // nil: not known; fixed by serve
	charged int64             // bytes that its client is charged for: see admit
	alone   int64             // bytes of charged that no view takes: see setAlone
	done    <-chan struct{}   // ctx.Done(), which is slow for each message; fixed by serve
	madeAt  int64             // when the messages to send next were produced
	timer   *time.Timer       // for waiting; nil before the first use
	onStall func()            // called when the proxy does not take a message in time; fixed by init
	guard   *time.Timer       // calls expire; nil before the first send. See guardSend, guardAge

	sending  atomic.Int64                  // when the message that is being sent began; 0: none is
	sentAt   atomic.Int64                  // when the last message that was taken began; 0: none was
	endAt    atomic.Int64                  // when its connection's age ends the stream; 0: never
	answered atomic.Bool                   // the first messages are sent
	endedBy  atomic.Pointer[status.Status] // the status with which another goroutine ended it; nil: none has

	// For explanations, of a Get only:
	usedView atomic.Pointer[getView]        // nil: none yet
	heldSet  atomic.Pointer[federation.Set] // that it has, or is being sent; nil: none yet
}

// init sets the fields that are fixed from the beginning; onStall is called when the proxy does not take a message in
// time.
func (st *stream) init(s *Server, out sink, transport statusWriter, onStall func()) {
	st.server = s
	st.out = out
	st.transport = transport
	st.onStall = onStall
}

func (st *stream) common() *stream { return st }

// serve serves one Get or GetProfile whose request has been received: it sends the first
// messages as soon as they are known, and then updates until the call ends.
func serve(ctx context.Context, p producer) error {
	st := p.common()
	st.connect(ctx)
	if !st.server.streams.add(st) {
		return statusDraining.Err()
	}
	defer release(p)

	if err := p.begin(ctx); err != nil {
		return err
	}
	if err := st.admit(p.name()); err != nil {
		return err
	}
	if err := st.sendAll(ctx, p.first()); err != nil {
		return err
	}
	st.markAnswered()

	for {
		frames, err := p.next(ctx)
		if err != nil {
			return err
		}
		if err := st.sendAll(ctx, frames); err != nil {
			return err
		}
	}
}

// connect sets what the stream knows of its call and connection.
func (st *stream) connect(ctx context.Context) {
	st.done = ctx.Done()
	st.conn = connectionOf(ctx)
	if end := st.conn.endOfAge(st.server.opts.ConnectionAge); !end.IsZero() {
		st.endAt.Store(st.server.clock(end))
	}
}

// admit decides whether there is memory for the stream. It returns the error that refuses the stream, or nil. The
// client's address is charged for the view if the stream is the first to need it, until the stream is closed.
func (st *stream) admit(name string) error {
	s := st.server
	st.charge(st.viewCost)
	switch {
	case st.viewFits && st.alone == 0:
		return nil
	case s.makeRoom():
		return nil
	case s.viewMemory.mayExceed(st.conn.client()):
		return nil
	}
	return s.viewMemory.refuse(name)
}

// charge charges the client's address for more bytes, or fewer, until the stream is closed.
func (st *stream) charge(more int64) {
	st.charged += more
	st.server.viewMemory.charge(st.conn.client(), more)
}

// setAlone sets how many bytes the messages take that are encoded for the stream alone. They count until the stream is
// closed, because gRPC keeps messages until the client reads them.
func (st *stream) setAlone(bytes int) {
	more := int64(bytes) - st.alone
	st.alone += more
	st.server.viewMemory.use(more)
	st.charge(more)
}

// sendAll sends the messages, one after the other. If the proxy does not take one within
// Options.Stall, onStall ends the stream. The error has a gRPC code.
func (st *stream) sendAll(ctx context.Context, frames []*wire.Frame) error {
	for i, f := range frames {
		if i > 0 {
			st.madeAt = st.server.now()
		}
		st.guardSend(st.madeAt)
		err := st.out.SendMsg(f)
		st.guardAge()
		if err != nil && ctx.Err() != nil {
			return st.endError(ctx)
		}
		if err != nil {
			return err
		}
		st.sentAt.Store(st.madeAt)
	}
	return nil
}

// guardSend begins to guard a send: if it takes Options.Stall, the stream is ended.
func (st *stream) guardSend(now int64) {
	stall := st.server.opts.Stall
	st.sending.Store(now)
	if st.guard == nil {
		st.guard = time.AfterFunc(stall, st.expire)
	} else {
		st.guard.Reset(stall)
	}
}

// guardAge ends the guarding of a send. From the first messages on, the timer then
// waits for the end of the connection's age: one of its own would cost memory.
func (st *stream) guardAge() {
	st.sending.Store(0)
	end := st.endAt.Load()
	if end == 0 || !st.answered.Load() {
		st.guard.Stop()
		return
	}
	st.guard.Reset(max(0, time.Duration(end-st.server.now())))
}

// markAnswered notes that the first messages are sent.
func (st *stream) markAnswered() {
	if end := st.endAt.Load(); end != 0 {
		st.endAt.Store(max(end, st.server.now()+int64(minAnswered)))
	}
	st.answered.Store(true)
	st.guardAge()
}

// pause waits until Options.Pace has passed since the last message began, so that a
// proxy that takes its time does not wait longer. It returns false if the stream ends
// before that.
func (st *stream) pause() (ok bool) {
	st.madeAt = st.server.now()
	wait := st.server.opts.Pace - time.Duration(st.madeAt-st.sentAt.Load())
	if wait <= 0 {
		return true
	}
	select {
	case <-st.done:
		return false
	case at := <-st.after(wait):
		st.madeAt = st.server.clock(at)
		return true
	}
}

// after is time.After with the stream's one timer.
func (st *stream) after(d time.Duration) <-chan time.Time {
	if st.timer == nil {
		st.timer = time.NewTimer(d)
	} else {
		st.timer.Reset(d)
	}
	return st.timer.C
}

// turnsPerProcessor is how many streams may produce updates at a time, for each processor.
const turnsPerProcessor = 8

// turns is a semaphore, with a value for each stream that is producing an update. First
// messages need no turn. Go runs goroutines roughly in the order in which they become
// runnable. A change of a service that most proxies use makes tens of thousands of streams
// runnable. The goroutines that read watches and publish sets would wait behind all of
// them, several times for each event, until each has produced its update. With turns they
// wait only until each has begun to wait for its turn, and a stream that waits for its
// turn skips sets that are replaced meanwhile.
//
// A stream has its turn while it looks up its set and encodes the messages, or waits for
// another stream that encodes the same ones. It may also switch to another view.
type turns chan struct{}

// newTurns returns turns for the processors that there are now.
func newTurns() turns { return make(turns, turnsPerProcessor*runtime.GOMAXPROCS(0)) }

// takeTurn waits for a turn, which endTurn gives back. It returns false if the stream ends
// before that. A turn is given back before the messages are sent: a proxy that takes its
// time delays no other.
func (st *stream) takeTurn() (ok bool) {
	select {
	case st.server.turns <- struct{}{}:
		return true
	default:
	}
	select {
	case <-st.done:
		return false
	case st.server.turns <- struct{}{}:
		st.madeAt = st.server.now()
		return true
	}
}

func (st *stream) endTurn() { <-st.server.turns }

// expire is called when the guard's time is over: the send takes too long, or the
// connection is too old. It may be called late, when there is another send already, or
// no longer one: then the timer has been set again.
func (st *stream) expire() {
	now := st.server.now()
	sending := st.sending.Load()
	end := st.endAt.Load()
	switch {
	case sending != 0:
		if time.Duration(now-sending) >= st.server.opts.Stall {
			st.onStall()
		}
	case end != 0 && now >= end && st.answered.Load():
		st.end(statusTooOld)
	}
}

// end ends the stream from any goroutine. It returns false if the stream has been
// ended already.
func (st *stream) end(s *status.Status) bool {
	if !st.endedBy.CompareAndSwap(nil, s) {
		return false
	}
	if err := st.transport.WriteStatus(s); err != nil {
		st.server.log.Debug("status of a stream not written", zap.Error(err))
	}
	return true
}

// endError returns the error of a stream whose context is done.
func (st *stream) endError(ctx context.Context) error {
	if s := st.endedBy.Load(); s != nil {
		return s.Err()
	}
	return status.FromContextError(ctx.Err()).Err()
}

// release closes a producer, and notes a stall.
func release(p producer) {
	st := p.common()
	defer st.server.streams.remove(st)
	p.close()
	if st.endedBy.Load() == statusStalled {
		st.conn.noteStall()
	}
}

// close stops the timers, and gives back what the stream has taken.
func (st *stream) close() {
	if st.timer != nil {
		st.timer.Stop()
	}
	if st.guard != nil {
		st.guard.Stop()
	}
	st.setAlone(0)
	st.charge(-st.charged)
}
