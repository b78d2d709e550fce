package grpcapi

import "context"

// call serves one Get or GetProfile: it receives the request, sends the first
// messages as soon as they are known, and then sends updates until the call ends.
//
// The goroutine of a call lives for as long as its stream, up to an hour, and should
// keep a stack of 4 KiB, half of which are gRPC's own frames. Go shrinks a stack only
// if less than a quarter of it is in use. So whatever needs more stack (to receive the
// request, to send the first messages, to encode) runs on workers: accept and answer
// do, and store their result in err. That saves 4 KiB for each stream, unless calls
// are traced. A call has a worker while its request has not come, or its first
// messages are not taken, but none while it waits for clusters.
type call struct {
	server  *Server // fixed, as are ctx and receive
	ctx     context.Context
	receive func() (producer, error)

	producer producer // registered in the server; nil: not yet
	answered bool     // the first messages are sent
	err      error
}

// serve runs a call until it ends. receive receives its request, and makes a producer
// for it.
func (s *Server) serve(ctx context.Context, receive func() (producer, error)) error {
	c := &call{server: s, ctx: ctx, receive: receive}
	defer c.release()
	s.workers.do(c.accept)
	if c.err == nil && !c.answered {
		if c.err = c.producer.wait(ctx); c.err == nil {
			s.workers.do(c.answer)
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
	st.done = c.ctx.Done()
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
	frames, err := c.producer.first()
	if err == nil {
		err = c.producer.common().sendAll(c.ctx, frames)
	}
	c.answered, c.err = err == nil, err
}

// release closes the producer, if there is one.
func (c *call) release() {
	if c.producer != nil {
		defer c.server.removeStream(c.producer.common())
		c.producer.close()
	}
}
