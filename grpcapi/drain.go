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

// openStreams is the set of all open Get and GetProfile streams.
type openStreams struct {
	mu       sync.Mutex
	all      map[*stream]struct{}
	finished bool                         // if true, new streams are refused
	unused   federation.Latest[time.Time] // since when no stream is open; zero while a stream is open; set under mu
}

func newOpenStreams() *openStreams {
	o := &openStreams{all: make(map[*stream]struct{})}
	o.unused.Set(time.Now())
	return o
}

// add adds a stream to the set. If the server has finished, add returns false.
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

// byView returns the Get streams of a service, grouped by view.
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

// drain ends each open stream whose first message has been sent, after a random delay of at most
// the given duration. When drain has ended the last stream, or when ctx is done, drain returns. See
// Server.Drain.
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

// plannedEnd says when drain will end a stream.
type plannedEnd struct {
	stream *stream
	after  time.Duration // since drain was called
}

// planEnds plans when to end each stream whose first message has been sent, and sorts the results
// by time. Streams without a first message stay open, because a proxy would treat their end as a
// refusal.
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

// waitUnused returns true as soon as no stream has been open for the duration d. If ctx is done
// first, the result is false.
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

// finish ends all streams with Unavailable, and makes add refuse new ones.
func (o *openStreams) finish() {
	o.mu.Lock()
	o.finished = true
	open := slices.Collect(maps.Keys(o.all))
	o.mu.Unlock()
	for _, st := range open {
		st.end(statusDraining)
	}
}
