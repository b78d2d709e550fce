package grpcapi

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// MarkNotServing makes the health service report NOT_SERVING, so that clients that
// check it choose another replica. All streams are served as before, until Finish.
func (s *Server) MarkNotServing() { s.health.Shutdown() }

// Drain ends each stream that is open now with Unavailable, after a random part of
// Options.Drain, so that proxies do not all connect to another replica at once.
// Streams that are opened later, also by those proxies, are served and stay open, and
// so do those whose first message has not been sent yet. It returns when it has ended
// the last of the streams, or when the context is done.
//
// It refuses no new streams, because a proxy that is refused waits twice as long each
// time, up to a minute, and resets that only with the first message that it receives.
// It also uses DNS answers that are half a minute old. So it would be kept away from
// every replica, while one that is served loses 0.1 s.
func (s *Server) Drain(ctx context.Context) {
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, d := range s.planEnds() {
		timer.Reset(d.after - time.Since(start))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			d.stream.end(statusDraining)
		}
	}
}

// WaitUnused returns true when no stream has been open for the given time, and false
// when the context is done before that. The time must be longer than the 0.1 s that a
// proxy waits before it reconnects.
func (s *Server) WaitUnused(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		since, changed := s.unused.Get()
		var elapsed <-chan time.Time
		if !since.IsZero() {
			left := d - time.Since(since)
			if left <= 0 {
				return true
			}
			timer.Reset(left)
			elapsed = timer.C
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		case <-elapsed:
		}
	}
}

// Finish ends all streams with Unavailable now, and refuses new ones. It does not wait
// for them. Call it once no client can connect.
func (s *Server) Finish() {
	s.MarkNotServing()
	s.mu.Lock()
	s.finished = true
	open := slices.Collect(maps.Keys(s.streams))
	s.mu.Unlock()
	for _, st := range open {
		st.end(statusDraining)
	}
}

// plannedEnd is when Drain ends a stream.
type plannedEnd struct {
	stream *stream
	after  time.Duration // since Drain was called
}

// planEnds plans the ends of the answered streams, in order of time. To end another
// would be to refuse it.
func (s *Server) planEnds() []plannedEnd {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]plannedEnd, 0, len(s.streams))
	for st := range s.streams {
		if !st.answered.Load() {
			continue
		}
		d := plannedEnd{stream: st}
		if s.opts.Drain > 0 {
			d.after = rand.N(s.opts.Drain)
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b plannedEnd) int { return cmp.Compare(a.after, b.after) })
	return list
}

// addStream registers a stream. It returns false if the server has finished.
func (s *Server) addStream(st *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return false
	}
	if len(s.streams) == 0 {
		s.unused.Set(time.Time{})
	}
	s.streams[st] = struct{}{}
	return true
}

func (s *Server) removeStream(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.streams, st); len(s.streams) == 0 {
		s.unused.Set(time.Now())
	}
}
