package grpcapi

import "context"

// serve serves one Get or GetProfile whose request has been received: it sends the first
// messages as soon as they are known, and then updates until the call ends.
func (s *Server) serve(ctx context.Context, p producer) error {
	st := p.common()
	st.done, st.conn = ctx.Done(), connectionOf(ctx)
	st.endAt.Store(s.endOfAge(st.conn))
	if !s.addStream(st) {
		return statusDraining.Err()
	}
	defer s.release(p)
	if !p.prepare() {
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
	frames, err := p.first()
	if err != nil {
		return err
	}
	if err := st.sendAll(ctx, frames); err != nil {
		return err
	}
	st.markAnswered()
	return sendUpdates(ctx, p)
}

// release closes a producer, and notes a stall.
func (s *Server) release(p producer) {
	st := p.common()
	defer s.removeStream(st)
	p.close()
	if st.endedBy.Load() == statusStalled {
		s.noteStall(st.conn)
	}
}
