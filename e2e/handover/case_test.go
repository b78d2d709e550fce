package handover

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"isthmus/e2e/gateway"
	"isthmus/e2e/proxy"
)

// flags are how long a gateway takes to go.
type flags struct{ delay, drain time.Duration }

func (f *flags) args() []string {
	args := []string{"-log-level=info"}
	if f != nil {
		args = append(args, fmt.Sprintf("-shutdown-delay=%v", f.delay), fmt.Sprintf("-drain=%v", f.drain))
	}
	return args
}

// setting is what a case is played with.
type setting struct {
	binary string // empty: the one that is tested
	flags  *flags // nil: none, so that the defaults apply
	ttl    time.Duration
	lag    time.Duration // from what happens to a replica until DNS shows it
	size   int           // of the crowd
}

// defaults are the values of these flags by default.
var defaults = flags{23 * time.Second, 6 * time.Second}

// serves returns how long after SIGTERM a gateway goes on serving.
func (s setting) serves() time.Duration {
	f := cmp.Or(s.flags, &defaults)
	return f.delay + f.drain
}

// outcome is what came of a case.
type outcome struct {
	ended  time.Duration   // from SIGTERM until the process had ended
	reach  []time.Duration // of each change meanwhile: until all proxies had it; sorted
	blind  []time.Duration // of each proxy that lost a stream: the longest time without; sorted
	moved  int             // how many proxies were at the one that went
	back   int             // how many of them came back to it
	burst  int             // the most streams that were opened at another one within a second
	twice  int             // how many proxies lost more than one stream while it served
	turned []proxy.Refusal // streams that were refused while it served
	away   time.Duration   // of a restart: from the end of the process until another was ready
	follow []time.Duration // of a restart, of each proxy: from ready until its first message; sorted
	served []time.Duration // the same from the first time that it tried once the gateway was ready; sorted
}

// start starts a gateway until the test ends.
func (w *world) start(t *testing.T, s setting, name string) *gateway.Gateway {
	t.Helper()
	g, err := gateway.Start(t.Context(), gateway.Config{Binary: s.binary, Kubeconfig: w.kubeconfig, Args: s.flags.args(), Hostname: name})
	must(t, err)
	t.Cleanup(func() { must(t, g.Stop()) })
	return g
}

// surge plays the case of that name.
func (w *world) surge(t *testing.T, s setting) outcome {
	t.Helper()
	old := w.start(t, s, "old")
	fresh := w.start(t, s, "new") // before the crowd, or it would be stopped before that
	c := w.newCrowd(t, s, old.Addr())
	if s.lag == 0 {
		c.records.Set(old.Addr(), fresh.Addr())
	}
	return c.roll(t, old, fresh)
}

// two plays the case of that name.
func (w *world) two(t *testing.T, s setting) outcome {
	t.Helper()
	old, other := w.start(t, s, "old"), w.start(t, s, "other")
	return w.newCrowd(t, s, old.Addr(), other.Addr()).roll(t, old, other)
}

// roll lets one gateway go, so that the other is left.
func (c *crowd) roll(t *testing.T, old, left *gateway.Gateway) outcome {
	t.Helper()
	var there []*client
	for _, one := range c.all {
		if one.at() == old.Addr() {
			there = append(there, one)
		}
	}
	began := c.term(t, old)
	published := time.AfterFunc(c.setting.lag, func() { c.records.Set(left.Addr()) })
	defer published.Stop()
	over := c.awaitEnd(t, old)
	o := outcome{ended: over.Sub(began), moved: len(there), reach: c.reached(t, began)}
	o.judge(c, began, old.Addr(), there)
	must(t, c.faults())
	return o
}

// restart plays the case of that name, with a time between the end and the start.
func (w *world) restart(t *testing.T, s setting, absence time.Duration) outcome {
	t.Helper()
	g := w.start(t, s, "only")
	c := w.newCrowd(t, s, g.Addr())
	began := c.term(t, g)
	over := c.awaitEnd(t, g)
	<-time.After(absence)
	must(t, g.Restart(t.Context()))
	ready := time.Now()
	o := outcome{ended: over.Sub(began), moved: len(c.all), reach: c.reached(t, began)}
	o.away = ready.Sub(over)
	o.judge(c, began, g.Addr(), c.all)
	for _, one := range c.all {
		all := one.Openings()
		first := all[len(all)-1].First
		o.follow = append(o.follow, max(0, w.pulse.Between(ready, first)))
		o.served = append(o.served, max(0, w.pulse.Between(one.firstTry(ready, first), first)))
	}
	slices.Sort(o.follow)
	slices.Sort(o.served)
	must(t, c.faults())
	return o
}

func (c *crowd) term(t *testing.T, g *gateway.Gateway) time.Time {
	t.Helper()
	began := time.Now()
	must(t, g.Signal(syscall.SIGTERM))
	return began
}

// awaitEnd waits until the process has ended.
func (c *crowd) awaitEnd(t *testing.T, g *gateway.Gateway) time.Time {
	t.Helper()
	select {
	case <-g.Exited():
	case <-time.After(patience):
		t.Fatalf("the gateway has not ended; its log:\n%s", g.Log(20))
	}
	return time.Now()
}

// reached returns, of the changes since a moment until all proxies have been sent a new one, how long each took to
// reach all proxies; sorted.
func (c *crowd) reached(t *testing.T, began time.Time) (took []time.Duration) {
	t.Helper()
	must(t, c.await(t.Context(), len(c.world.made())+1)) // the one before that may be under way already
	made := c.world.made()
	must(t, c.await(t.Context(), len(made)-1))
	first, _ := slices.BinarySearchFunc(made, began, time.Time.Compare)
	for n := first; n < len(made); n++ {
		longest := time.Duration(0)
		for _, one := range c.all {
			at, _ := one.saw(n) // it has, since it has seen the last
			longest = max(longest, c.world.pulse.Between(made[n], at))
		}
		took = append(took, longest)
	}
	slices.Sort(took)
	return took
}

// judge counts and measures the streams since SIGTERM of the proxies that were at the gateway that went.
func (o *outcome) judge(c *crowd, began time.Time, old string, there []*client) {
	var elsewhere []time.Time
	until := began.Add(c.setting.serves())
	for _, one := range there {
		longest, back, lost := time.Duration(0), false, 0
		for _, r := range one.Refusals() {
			if r.At.After(began) && r.At.Before(until) {
				o.turned = append(o.turned, r)
			}
		}
		for _, s := range one.Openings() {
			if s.Lost.Before(began) {
				continue
			}
			if s.Lost.Before(until) {
				lost++
			}
			longest = max(longest, c.world.pulse.Between(s.Lost, s.First))
			if s.Addr != old {
				elsewhere = append(elsewhere, s.First)
			} else {
				back = true
			}
		}
		if o.blind = append(o.blind, longest); back {
			o.back++
		}
		if lost > 1 {
			o.twice++
		}
	}
	slices.Sort(o.blind)
	o.burst = burst(elsewhere)
}

// burst returns the largest number of moments within any second.
func burst(moments []time.Time) (most int) {
	slices.SortFunc(moments, time.Time.Compare)
	from := 0
	for to := range moments {
		for moments[to].Sub(moments[from]) >= time.Second {
			from++
		}
		most = max(most, to-from+1)
	}
	return most
}

// last and median are of sorted values.
func last[T cmp.Ordered](sorted []T) T   { return sorted[len(sorted)-1] }
func median[T cmp.Ordered](sorted []T) T { return sorted[len(sorted)/2] }

func TestBurst(t *testing.T) {
	start := time.Now()
	var moments []time.Time
	for _, ms := range []int{5000, 0, 999, 1000, 1500, 1999, 2100} {
		moments = append(moments, start.Add(time.Duration(ms)*time.Millisecond))
	}
	if got := burst(moments); got != 3 {
		t.Errorf("%d", got)
	}
	if got := burst(nil); got != 0 {
		t.Errorf("%d", got)
	}
}
