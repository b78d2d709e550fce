package handover

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"isthmus/e2e/admin"
	"isthmus/e2e/gateway"
	"isthmus/e2e/poll"
)

// TestConnectionAge: a replica that has been restarted gets proxies again, without any end of the other. Meanwhile no proxy
// is refused, none is blind for long, and none is without an endpoint.
func TestConnectionAge(t *testing.T) {
	w := newWorld(t)
	const age = 2 * time.Second
	start := func(name string) *gateway.Gateway {
		g, err := gateway.Start(t.Context(), gateway.Config{Kubeconfig: w.kubeconfig, Hostname: name, Args: []string{
			"-log-level=info", "-shutdown-delay=0s", "-drain=0s", fmt.Sprintf("-max-connection-age=%v", age)}})
		must(t, err)
		t.Cleanup(func() { must(t, g.Stop()) })
		return g
	}
	stays, restarted := start("stays"), start("restarted")
	c := w.newCrowd(t, setting{ttl: time.Hour, size: 20}, stays.Addr(), restarted.Addr())
	must(t, restarted.Restart(t.Context()))
	back := time.Now()
	must(t, poll.Until(t.Context(), patience, 50*time.Millisecond, func() error { return atBoth(t.Context(), c.setting.size, stays, restarted) }))
	t.Logf("the restarted replica has a quarter of the proxies after %v", time.Since(back).Round(10*time.Millisecond))

	must(t, poll.Until(t.Context(), patience, 50*time.Millisecond, func() error { return c.allMoved(back) }))
	must(t, c.await(t.Context(), len(w.made())-1))
	must(t, c.faults())
	moves, worst := 0, time.Duration(0)
	for i, one := range c.all {
		for _, r := range one.Refusals() {
			if r.At.After(back) {
				t.Errorf("proxy %d was refused: %v", i, r.Err)
			}
		}
		for _, o := range one.Openings() {
			if o.Lost.After(back) {
				moves++
				worst = max(worst, w.pulse.Between(o.Lost, o.First))
			}
		}
	}
	t.Logf("%d moves; a proxy was blind for %v at most", moves, worst)
	if worst > blindLimit {
		t.Errorf("a proxy was blind for %v", worst)
	}
}

// allMoved returns an error unless each proxy has lost three streams since a moment, and gone on.
func (c *crowd) allMoved(since time.Time) error {
	for i, one := range c.all {
		n := 0
		for _, o := range one.Openings() {
			if o.Lost.After(since) {
				n++
			}
		}
		if n < 3 {
			return fmt.Errorf("proxy %d was moved %d times only", i, n)
		}
	}
	return nil
}

// atBoth returns an error unless both gateways have at least a quarter of the proxies.
func atBoth(ctx context.Context, size int, gateways ...*gateway.Gateway) error {
	for _, g := range gateways {
		samples, err := admin.Metrics(ctx, g.MetricsAddr())
		if err != nil {
			return err
		}
		if open, _ := admin.Sum(samples, regexp.MustCompile("^isthmus_streams$")); int(open) < size/4 {
			return fmt.Errorf("%v of %d streams are at %s", open, size, g.Addr())
		}
	}
	return nil
}
