package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"isthmus/e2e/node"
)

// keepRunning runs the nodes until the test ends.
func (r *rollout) keepRunning(t *testing.T) {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { r.nodes.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// rollingFigures is what came of the updates.
type rollingFigures struct {
	name     string
	proxies  int
	updates  []time.Duration // how long each took, sorted
	replaced int             // Pods that have ended
	ending   []time.Duration // of each: from SIGTERM until its end; sorted
	grace    time.Duration
	atOnce   int // the most Pods that there were at a time
	killed   int
	reach    []time.Duration // of each change: until all proxies had it; sorted
	blind    []time.Duration // from the end of a stream until the next message, of all streams that ended; sorted
	back     int             // streams that were opened at a gateway that had got SIGTERM
	burst    int             // the most streams that were opened at one gateway within a second
	stalest  time.Duration   // the longest that an endpoint was in use after it was deleted
	requests int
}

func (r *rollout) figures(proxies []*rollingProxy, first, last int) rollingFigures {
	f := rollingFigures{name: r.name, proxies: len(proxies), updates: slices.Sorted(slices.Values(r.took))}
	runs := map[string]node.Run{}
	all := r.nodes.Runs()
	for _, run := range all {
		runs[run.Addr] = run
		f.atOnce = max(f.atOnce, there(all, run.Started))
		if run.Ended.IsZero() {
			continue
		}
		f.replaced, f.grace = f.replaced+1, run.Grace
		took := r.world.pulse.Between(run.Term, run.Ended) // so that the machine's pauses do not count
		if f.ending = append(f.ending, took); run.Killed && took >= run.Grace {
			f.killed++
		}
	}
	opened := map[string][]time.Time{}
	for _, p := range proxies {
		for _, o := range p.Openings() {
			if o.Lost.IsZero() {
				continue
			}
			f.blind = append(f.blind, r.world.pulse.Between(o.Lost, o.First))
			if term := runs[o.Addr].Term; !term.IsZero() && o.First.After(term) {
				f.back++
			}
			opened[o.Addr] = append(opened[o.Addr], o.First)
		}
		p.mu.Lock()
		f.stalest, f.requests = max(f.stalest, p.stalest), f.requests+p.requests
		p.mu.Unlock()
	}
	for _, moments := range opened {
		f.burst = max(f.burst, mostWithin(time.Second, moments))
	}
	made := r.world.made()
	for n := first; n <= last; n++ {
		longest := time.Duration(0)
		for _, p := range proxies {
			if at, ok := p.saw(n, len(made)); ok && (p.clusters != nil || n%rollingProfiles == 0) {
				longest = max(longest, r.world.pulse.Between(made[n], at))
			}
		}
		f.reach = append(f.reach, longest)
	}
	slices.Sort(f.ending)
	slices.Sort(f.reach)
	slices.Sort(f.blind)
	return f
}

// serves returns whether a gateway should have served at some moment.
func (r *rollout) serves() func(addr string, at time.Time) bool {
	until := map[string]time.Time{}
	for _, run := range r.nodes.Runs() {
		if !run.Term.IsZero() {
			until[run.Addr] = run.Term.Add(r.delay + r.drain)
		}
	}
	return func(addr string, at time.Time) bool { return until[addr].IsZero() || at.Before(until[addr]) }
}

// there returns how many Pods there were at a moment.
func there(all []node.Run, at time.Time) (count int) {
	for _, run := range all {
		if !run.Started.After(at) && (run.Ended.IsZero() || run.Ended.After(at)) {
			count++
		}
	}
	return count
}

// mostWithin returns the largest number of moments within any span of a length.
func mostWithin(length time.Duration, moments []time.Time) (most int) {
	slices.SortFunc(moments, time.Time.Compare)
	from := 0
	for to := range moments {
		for moments[to].Sub(moments[from]) >= length {
			from++
		}
		most = max(most, to-from+1)
	}
	return most
}

// check checks what docs/operations.md and handover/README.md state; the short form, which runs beside other tests, allows for ten
// times as long.
func (f rollingFigures) check(t *testing.T) {
	t.Helper()
	limit := either(20*time.Second, 2*time.Second)
	if f.killed > 0 || f.replaced < 2*len(f.updates) {
		t.Errorf("of %d Pods %d were killed", f.replaced, f.killed)
	}
	if len(f.blind) < f.proxies {
		t.Errorf("only %d streams of %d proxies have moved: this test sees nothing", len(f.blind), f.proxies)
	}
	for what, d := range map[string]time.Duration{"a change reached all proxies after": highest(f.reach), "a proxy was blind for": highest(f.blind),
		"an endpoint was in use after its end for": f.stalest} {
		if d > limit {
			t.Errorf("%s %v", what, d)
		}
	}
}

func highest(sorted []time.Duration) time.Duration { return sorted[len(sorted)-1] }
func middle(sorted []time.Duration) time.Duration  { return sorted[len(sorted)/2] }

func (f rollingFigures) String() string {
	s := func(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
	return fmt.Sprintf("%s: %d updates, of which one took %s, %s at most; %d Pods replaced, %d there at a time, ended %s to %s after SIGTERM, of a grace of %v; "+
		"%d changes reached all %d proxies after %s, %s at most; %d streams moved, blind for %s, %s at most; %d to a gateway that was ending; "+
		"%d within a second at most; an endpoint in use for %s after its end; %d requests",
		f.name, len(f.updates), s(middle(f.updates)), s(highest(f.updates)), f.replaced, f.atOnce, s(f.ending[0]), s(highest(f.ending)), f.grace,
		len(f.reach), f.proxies, s(middle(f.reach)), s(highest(f.reach)), len(f.blind), s(middle(f.blind)), s(highest(f.blind)), f.back,
		f.burst, s(f.stalest), f.requests)
}
