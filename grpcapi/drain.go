package grpcapi

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// Leave makes health say NOT_SERVING, so that clients that ask go elsewhere.
// Whoever comes is served as before, until Drain.
func (s *Server) Leave() { s.health.Shutdown() }

// Drain refuses new streams with Unavailable from now on, and ends each open one
// with Unavailable after a random part of Options.Drain, so that not all proxies
// come to another replica at once. Health says NOT_SERVING. It returns when all
// have ended or the context is done, which leaves those open that are not due.
func (s *Server) Drain(ctx context.Context) {
	s.Leave()
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, d := range s.departures() {
		timer.Reset(d.after - time.Since(start))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			d.stream.end(whyDraining)
		}
	}
	select {
	case <-ctx.Done():
	case <-s.ended:
	}
}

// departure says when a stream ends.
type departure struct {
	stream *stream
	after  time.Duration
}

// departures begins the drain: it says when each of the open streams ends, in
// that order.
func (s *Server) departures() []departure {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.checkEnded()
	list := make([]departure, 0, len(s.streams))
	for st := range s.streams {
		d := departure{stream: st}
		if s.opts.Drain > 0 {
			d.after = rand.N(s.opts.Drain)
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b departure) int { return cmp.Compare(a.after, b.after) })
	return list
}
