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

type sink interface{ SendMsg(m any) error }

// producer produces the messages of one stream. The serve function calls producer.begin once, then
// producer.first once, and then producer.next repeatedly. All errors contain a gRPC status code,
// and end the stream.
type producer interface {
	common() *stream
	name() string
	// The begin method waits for the first set or profile. If the call is refused, begin returns an
	// error.
	begin(context.Context) error
	// The method called "first" returns the initial messages. The caller must admit the stream
	// before it requests the initial messages.
	first() []*wire.Frame
	// The next method waits until there are messages to send, and then returns them.
	next(context.Context) ([]*wire.Frame, error)
	// The close method releases the stream's view and stops its timers.
	close()
}

// statusWriter is gRPC's transport stream, which any goroutine can use to end a call. WriteStatus
// sends the status after all earlier messages and cancels the call's context, which also unblocks
// SendMsg. Further calls have no effect.
//
// Canceling the context of the call would not be enough, because grpc-go would then respond with
// Canceled before the handler could return Unavailable. WriteStatus is not part of gRPC's API, so
// transportOf checks that the method exists. If a future release of grpc-go no longer exposes
// WriteStatus, every call will end with the status Internal, and tests in this package will fail.
type statusWriter interface{ WriteStatus(*status.Status) error }

// A goroutine that ends the stream of another goroutine uses one of the following statuses.
var (
	statusDraining = status.New(codes.Unavailable, "the replica is shutting down")
	statusStalled  = status.New(codes.Unavailable, "the proxy took too long to read an update")
)

// stream is the common state of Get and GetProfile streams. Only the handler's goroutine may use a
// stream, but any goroutine may call the end method.
//
// Streams have no message queues. Each stream stores the last state that it has sent, and its next
// update contains the difference between this state and the newest state. A slow proxy delays only
// its own stream, which then skips intermediate states.
type stream struct {
	server    *Server
	out       sink
	transport statusWriter

	viewFits bool  // the view is within the limit of Server.viewMemory, or another stream of the view has been admitted
	viewCost int64 // bytes of the view if this is the first stream that needed it; otherwise 0

	// All times are on Server.clock.
	conn    *clientConnection // nil if unknown; fixed by connect
	charged int64             // bytes charged to the client (see admit)
	alone   int64             // the part of charged that does not belong to a view (see setAlone)
	done    <-chan struct{}   // ctx.Done(), cached because calling it for each message is slow; fixed by connect
	madeAt  int64             // when the next messages were produced
	timer   *time.Timer       // for waiting; nil before the first use
	onStall func()            // called if the proxy does not read a message in time; fixed by init
	guard   *time.Timer       // calls expire; nil before the first send (see guardSend and guardAge)

	sending  atomic.Int64                  // when the current send began; 0 if no send is in progress
	sentAt   atomic.Int64                  // when the last completed send began; 0 if none has completed
	endAt    atomic.Int64                  // when the connection's age ends the stream; 0 means never
	answered atomic.Bool                   // the first messages have been sent
	endedBy  atomic.Pointer[status.Status] // the status with which another goroutine has ended the stream, or nil

	// The following fields are for the debug API, and only Get streams set them.
	usedView atomic.Pointer[getView]        // nil if none yet
	heldSet  atomic.Pointer[federation.Set] // the last set that was sent or is being sent; nil if none yet
}

func (st *stream) init(s *Server, out sink, transport statusWriter, onStall func()) {
	st.server = s
	st.out = out
	st.transport = transport
	st.onStall = onStall
}

func (st *stream) common() *stream { return st }

// serve serves one Get or GetProfile call whose request has arrived. The first messages are sent as
// soon as they are available, followed by updates until the call ends.
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

func (st *stream) connect(ctx context.Context) {
	st.done = ctx.Done()
	st.conn = connectionOf(ctx)
	if end := st.conn.endOfAge(st.server.opts.ConnectionAge); !end.IsZero() {
		st.endAt.Store(st.server.clock(end))
	}
}

// The admit method returns an error if there is not enough memory for the stream. Until the first
// stream of a view is closed, the view's memory is charged to that stream's client address.
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

func (st *stream) charge(more int64) {
	st.charged += more
	st.server.viewMemory.charge(st.conn.client(), more)
}

// setAlone records the total size of the messages that only this stream uses. The size counts
// toward the memory limit until the stream is closed, because gRPC buffers messages until the
// client reads them.
func (st *stream) setAlone(bytes int) {
	more := int64(bytes) - st.alone
	st.alone += more
	st.server.viewMemory.use(more)
	st.charge(more)
}

// sendAll sends the given messages one after another. If the proxy does not read a message within
// Options.Stall, onStall ends the stream. The returned error contains a gRPC status code.
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

// guardSend starts a timer that ends the stream if a send takes longer than Options.Stall.
func (st *stream) guardSend(now int64) {
	stall := st.server.opts.Stall
	st.sending.Store(now)
	if st.guard == nil {
		st.guard = time.AfterFunc(stall, st.expire)
	} else {
		st.guard.Reset(stall)
	}
}

// guardAge stops the timer that guardSend has started. After the first messages of a stream have
// been sent, guardAge resets the same timer to end the stream at the maximum age of the connection.
// A second timer per stream would use more memory.
func (st *stream) guardAge() {
	st.sending.Store(0)
	end := st.endAt.Load()
	if end == 0 || !st.answered.Load() {
		st.guard.Stop()
		return
	}
	st.guard.Reset(max(0, time.Duration(end-st.server.now())))
}

func (st *stream) markAnswered() {
	if end := st.endAt.Load(); end != 0 {
		st.endAt.Store(max(end, st.server.now()+int64(minAnswered)))
	}
	st.answered.Store(true)
	st.guardAge()
}

// The pause method waits until Options.Pace has passed since the stream began to send its most
// recent message. The time that the proxy takes to read a message counts toward the pause. If the
// stream ends during the pause, the result is false.
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

// The after method is like time.After, but reuses the stream's timer.
func (st *stream) after(d time.Duration) <-chan time.Time {
	if st.timer == nil {
		st.timer = time.NewTimer(d)
	} else {
		st.timer.Reset(d)
	}
	return st.timer.C
}

// turnsPerProcessor is the number of streams per processor that may produce updates at the same
// time.
const turnsPerProcessor = 8

// turns is a semaphore that limits how many streams produce updates at the same time.
//
// Go runs goroutines roughly in the order in which they become runnable. A change to a popular
// service makes tens of thousands of streams runnable. Without the semaphore, the goroutines that
// handle the next change would run only after all runnable streams had produced their updates. The
// semaphore makes most of the runnable streams wait for a turn before they produce updates, so
// other goroutines run sooner. While a stream waits for its turn, it skips sets that have been
// replaced by newer ones.
//
// A stream holds its turn while it looks up its set, and while it encodes messages or waits for
// another stream to encode them. A stream produces its first messages without waiting for a turn.
type turns chan struct{}

func newTurns() turns { return make(turns, turnsPerProcessor*runtime.GOMAXPROCS(0)) }

// takeTurn waits for a turn, which lasts until endTurn is called. If the stream ends first,
// takeTurn returns false. A stream ends its turn before sending messages, so that a slow proxy does
// not delay other streams.
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

// The guard timer calls the expire method when a send takes too long, and when the connection
// reaches its maximum age. The expire method may run late, after the send has ended and the timer
// has been reset.
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

// The end method ends the stream with the given status. Any goroutine may call it. If the stream
// has already ended, the result is false.
func (st *stream) end(s *status.Status) bool {
	if !st.endedBy.CompareAndSwap(nil, s) {
		return false
	}
	if err := st.transport.WriteStatus(s); err != nil {
		st.server.log.Debug("cannot write the status of a stream", zap.Error(err))
	}
	return true
}

func (st *stream) endError(ctx context.Context) error {
	if s := st.endedBy.Load(); s != nil {
		return s.Err()
	}
	return status.FromContextError(ctx.Err()).Err()
}

// The release function closes a producer. If the stream has stalled, the function also counts a
// stall for the connection.
func release(p producer) {
	st := p.common()
	defer st.server.streams.remove(st)
	p.close()
	if st.endedBy.Load() == statusStalled {
		st.conn.noteStall()
	}
}

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
