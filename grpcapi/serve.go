package grpcapi

import (
	"context"

	"isthmus/grpcapi/wire"
)

// call serves one Get or GetProfile: it receives the request, sends the first
// messages as soon as they are known, and then sends updates until the call ends.
//
// accept and answer run on a stack of their own ([runDeep]), and store their result in
// err: while the request has not come, or the first messages are not taken, a call has a
// second goroutine, but not while it waits for clusters.
type call struct {
	server  *Server // fixed, as are ctx and receive
	ctx     context.Context
	receive func() (producer, error)

	producer producer // registered in the server; nil: not yet
	err      error
}

// serve runs a call until it ends. receive receives its request, and makes a producer
// for it.
func (s *Server) serve(ctx context.Context, receive func() (producer, error)) error {
	c := &call{server: s, ctx: ctx, receive: receive}
	defer c.release()
	runDeep(c.accept)
	if c.err == nil && !c.producer.common().answered.Load() {
		if c.err = c.producer.wait(ctx); c.err == nil {
			runDeep(c.answer)
		}
	}
	if c.err != nil {
		return c.err
	}
	return sendUpdates(ctx, c.producer)
}

// accept receives the request and prepares its producer, unless the server has
// finished. If the first messages are known, it sends them.
func (c *call) accept() {
	p, err := c.receive()
	if err != nil {
		c.err = err
		return
	}
	st := p.common()
	st.done, st.from = c.ctx.Done(), clientOf(c.ctx)
	if end := c.server.endOfAge(c.ctx); !end.IsZero() {
		st.endAt.Store(c.server.clock(end))
	}
	if !c.server.addStream(st) {
		c.err = statusDraining.Err()
		return
	}
	c.producer = p
	if p.prepare() {
		c.answer()
	}
}

// answer sends the first messages.
func (c *call) answer() {
	var frames []*wire.Frame
	if frames, c.err = c.producer.first(); c.err != nil {
		return
	}
	st := c.producer.common()
	if c.err = st.sendAll(c.ctx, frames); c.err == nil {
		st.markAnswered()
	}
}

// release closes the producer, if there is one, and notes a stall.
func (c *call) release() {
	if c.producer == nil {
		return
	}
	st := c.producer.common()
	defer c.server.removeStream(st)
	c.producer.close()
	if st.endedBy.Load() == statusStalled {
		c.server.noteStall(c.ctx)
	}
}
