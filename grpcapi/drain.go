package grpcapi

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Leave makes health say NOT_SERVING, so that clients that ask go elsewhere.
// Whoever comes is served as before, until Finish.
func (s *Server) Leave() { s.health.Shutdown() }

// Drain ends each stream that is open now with Unavailable after a random part
// of Options.Drain, so that not all proxies come to another replica at once.
// Streams that are opened later, also by those proxies, are served and stay. It
// returns when the last of its streams has been ended or the context is done.
func (s *Server) Drain(ctx context.Context) {
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
}

// Deserted returns when no stream has been open for the time given, or when the
// context is done, and tells whether it was the former. A proxy whose stream was
// ended comes back within that time, unless it has gone elsewhere. One caller
// at a time.
func (s *Server) Deserted(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		since, empty := s.vacancy()
		var over <-chan time.Time
		if empty {
			left := d - time.Since(since)
			if left <= 0 {
				return true
			}
			timer.Reset(left)
			over = timer.C
		}
		select {
		case <-ctx.Done():
			return false
		case <-s.emptied:
		case <-over:
		}
	}
}

// Finish ends all streams with Unavailable, now, and whichever still come. It
// does not wait for them. For when nobody can connect any more.
func (s *Server) Finish() {
	s.Leave()
	s.mu.Lock()
	s.finished = true
	left := slices.Collect(maps.Keys(s.streams))
	s.mu.Unlock()
	for _, st := range left {
		st.end(whyDraining)
	}
}

// departure says when a stream ends.
type departure struct {
	stream *stream
	after  time.Duration
}

// departures says when each of the open streams ends, in that order.
func (s *Server) departures() []departure {
	s.mu.Lock()
	defer s.mu.Unlock()
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
