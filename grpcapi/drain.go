package grpcapi

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"isthmus/federation"
)

type openStreams struct {
	mu       sync.Mutex
	all      map[*stream]struct{}
	finished bool                         // if true, new streams are refused
	unused   federation.Latest[time.Time] // since when no stream is open; zero while one is open; set under mu
}

func newOpenStreams() *openStreams {
	o := &openStreams{all: make(map[*stream]struct{})}
	o.unused.Set(time.Now())
	return o
}

// If finish has already been called, the stream is not added, and the result is false.
func (o *openStreams) add(st *stream) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.finished {
		return false
	}
	if len(o.all) == 0 {
		o.unused.Set(time.Time{})
	}
	o.all[st] = struct{}{}
	return true
}

func (o *openStreams) remove(st *stream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, st)
	if len(o.all) == 0 {
		o.unused.Set(time.Now())
	}
}

func (o *openStreams) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all)
}

func (o *openStreams) byView(svc federation.ServiceID) map[*getView][]*stream {
	views := make(map[*getView][]*stream)
	o.mu.Lock()
	defer o.mu.Unlock()
	for st := range o.all {
		if v := st.usedView.Load(); v != nil && v.key.Service == svc {
			views[v] = append(views[v], st)
		}
	}
	return views
}

// drain implements Server.Drain.
func (o *openStreams) drain(ctx context.Context, over time.Duration) {
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, d := range o.planEnds(over) {
		timer.Reset(d.after - time.Since(start))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			d.stream.end(statusDraining)
		}
	}
}

type plannedEnd struct {
	stream *stream
	after  time.Duration // time since drain was called
}

// planEnds chooses a random time to end each open stream, and sorts the streams by this time.
// Streams that have not sent their first message are skipped, because a proxy treats a stream that
// ends before its first message as refused.
func (o *openStreams) planEnds(over time.Duration) []plannedEnd {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := make([]plannedEnd, 0, len(o.all))
	for st := range o.all {
		if !st.answered.Load() {
			continue
		}
		d := plannedEnd{stream: st}
		if over > 0 {
			d.after = rand.N(over)
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b plannedEnd) int { return cmp.Compare(a.after, b.after) })
	return list
}

// waitUnused implements Server.WaitUnused.
func (o *openStreams) waitUnused(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		since, changed := o.unused.Get()
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

// finish ends all streams with Unavailable, and causes new streams to be refused.
func (o *openStreams) finish() {
	o.mu.Lock()
	o.finished = true
	open := slices.Collect(maps.Keys(o.all))
	o.mu.Unlock()
	for _, st := range open {
		st.end(statusDraining)
	}
}
