package grpcapi

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/grpcapi/wire"
)

// sink takes a stream's messages; it is a part of grpc.ServerStream.
type sink interface{ SendMsg(m any) error }

// source is what a stream has to send. It is prepared first; then come wait, if it
// is not ready, first, and next again and again. Errors end the stream, and have a
// gRPC code.
type source interface {
	common() *stream
	// prepare takes what the stream needs, and tells whether its first messages are
	// known.
	prepare() (ready bool)
	// wait waits until they are.
	wait(context.Context) error
	// first returns the first messages, or why the call is refused.
	first() ([]*wire.Frame, error)
	// next waits until there is something else to send, and returns that.
	next(context.Context) ([]*wire.Frame, error)
	// close releases what the stream holds.
	close()
}

// statusWriter ends a stream from any goroutine: it sends the status, after what
// has been sent before, and cancels the stream's context. Only the first call
// counts.
type statusWriter interface{ WriteStatus(*status.Status) error }

// Why a stream is ended from outside.
var (
	whyDraining = status.New(codes.Unavailable, "the gateway is shutting down")
	whyStalled  = status.New(codes.Unavailable, "the proxy has taken no update for too long")
)

// stream is what the calls of both RPCs have in common. But for end it belongs to
// one goroutine at a time: a worker that runs its call, or its handler's.
type stream struct {
	server    *Server
	out       sink
	transport statusWriter

	over  <-chan struct{} // the context's, which is not to be asked for each message; fixed by serve
	now   time.Time       // when what is to be sent next was found
	at    time.Time       // when the last message was begun
	timer *time.Timer     // for waiting; nil before the first use
	stall watchdog
	why   atomic.Pointer[status.Status] // it has been ended from outside; nil: it has not
}

// start makes the stream ready; stalled is called when its proxy does not take
// a message in time.
func (st *stream) start(s *Server, out sink, transport statusWriter, stalled func()) {
	st.server, st.out, st.transport = s, out, transport
	st.stall = watchdog{limit: s.opts.Stall, epoch: s.epoch, bark: stalled}
}

func (st *stream) common() *stream { return st }

// follow sends what else the source has until the stream ends. The error has a
// gRPC code.
func follow(ctx context.Context, src source) error {
	for {
		frames, err := src.next(ctx)
		if err != nil {
			return err
		}
		if err := src.common().sendAll(ctx, frames); err != nil {
			return err
		}
	}
}

// sendAll sends the frames, one after the other.
func (st *stream) sendAll(ctx context.Context, frames []*wire.Frame) error {
	for i, f := range frames {
		if i > 0 {
			st.now = time.Now()
		}
		if err := st.send(ctx, f, st.now); err != nil {
			return err
		}
	}
	return nil
}

// send sends a message that was begun now, and ends the stream if the proxy does
// not take it in time. The error has a gRPC code.
func (st *stream) send(ctx context.Context, f *wire.Frame, now time.Time) error {
	st.stall.begin(now)
	err := st.out.SendMsg(f)
	st.stall.done()
	if err != nil && ctx.Err() != nil {
		return st.ended(ctx)
	}
	if err != nil {
		return err
	}
	st.at = now
	return nil
}

// pause waits until Options.Pace has passed since the last message, unless the
// stream ends before that.
func (st *stream) pause() (ok bool) {
	st.now = time.Now()
	wait := st.server.opts.Pace - st.now.Sub(st.at)
	if wait <= 0 {
		return true
	}
	select {
	case <-st.over:
		return false
	case st.now = <-st.after(wait):
		return true
	}
}

// end ends the stream from outside, and tells whether that had not been done.
func (st *stream) end(why *status.Status) bool {
	if !st.why.CompareAndSwap(nil, why) {
		return false
	}
	if err := st.transport.WriteStatus(why); err != nil {
		st.server.log.Debug("status of a stream not written", zap.Error(err))
	}
	return true
}

// ended returns why a stream has ended whose context is done.
func (st *stream) ended(ctx context.Context) error {
	if why := st.why.Load(); why != nil {
		return why.Err()
	}
	return status.FromContextError(ctx.Err()).Err()
}

// close releases what the stream holds.
func (st *stream) close() {
	if st.timer != nil {
		st.timer.Stop()
	}
	st.stall.stop()
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
