package grpcapi

import "context"

// call is one call of a proxy. It is accepted, is answered with its first messages
// as soon as these are known, follows what its proxy asked for, and ends. accept
// and answer are for workers, and say in err how they went.
type call struct {
	server  *Server // fixed, as are ctx and receive
	ctx     context.Context
	receive func() (source, error)

	src      source // one of those that are open; nil: none yet
	answered bool   // the first messages are sent
	err      error
}

// serve runs a call until it ends; receive receives its request, and makes a
// source of it.
func (s *Server) serve(ctx context.Context, receive func() (source, error)) error {
	c := &call{server: s, ctx: ctx, receive: receive}
	defer c.release()
	s.workers.do(c.accept)
	if c.err == nil && !c.answered { // a wait takes no worker
		if c.err = c.src.wait(ctx); c.err == nil {
			s.workers.do(c.answer)
		}
	}
	if c.err != nil {
		return c.err
	}
	return follow(ctx, c.src)
}

// accept receives the request and prepares what it asks for, unless the server has
// finished. If the first messages are known, it sends them.
func (c *call) accept() {
	src, err := c.receive()
	if err != nil {
		c.err = err
		return
	}
	st := src.common()
	st.over = c.ctx.Done()
	if !c.server.enter(st) {
		c.err = whyDraining.Err()
		return
	}
	c.src = src
	if src.prepare() {
		c.answer()
	}
}

// answer sends the first messages.
func (c *call) answer() {
	frames, err := c.src.first()
	if err == nil {
		err = c.src.common().sendAll(c.ctx, frames)
	}
	c.answered, c.err = err == nil, err
}

// release releases the source, if there is one.
func (c *call) release() {
	if c.src != nil {
		defer c.server.leave(c.src.common())
		c.src.close()
	}
}
