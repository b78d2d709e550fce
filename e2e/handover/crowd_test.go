package handover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"isthmus/e2e/object"
	"isthmus/e2e/proxy"
)

// crowd is the proxies of one case.
type crowd struct {
	world   *world
	setting setting
	records *proxy.Records
	all     []*client
}

// client is a proxy, and what it has seen.
type client struct {
	*proxy.Subscriber

	mu    sync.Mutex
	seen  []sight
	tried []time.Time // when it began to connect
}

// sight is a change that a proxy has seen, and none before it.
type sight struct {
	change int
	at     time.Time
}

// newCrowd runs proxies whose DNS caches are of all ages, until the test ends.
func (w *world) newCrowd(t *testing.T, s setting, addrs ...string) *crowd {
	t.Helper()
	c := &crowd{world: w, setting: s, records: proxy.NewRecords(addrs...)}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	for i := range s.size {
		one := &client{}
		one.Subscriber = proxy.NewSubscriber(proxy.SubscriberConfig{
			Records: c.records, TTL: s.ttl, Age: s.ttl * time.Duration(i) / time.Duration(s.size), Authority: object.Authority(namespace, "web"),
			Connect: one.connect, Pulse: &w.pulse,
		})
		c.all = append(c.all, one)
		running.Go(func() { one.Run(ctx) })
		running.Go(func() { one.watch(ctx) })
	}
	must(t, c.await(t.Context(), 0))
	for _, one := range c.all {
		one.Stream().Mark()
	}
	return c
}

// connect notes that the proxy tries.
func (c *client) connect(ctx context.Context, addr string) (proxy.Conn, error) {
	c.mu.Lock()
	c.tried = append(c.tried, time.Now())
	c.mu.Unlock()
	return proxy.Connect(ctx, addr)
}

// firstTry returns when the proxy first tried between two moments; the first of these if it did not.
func (c *client) firstTry(from, to time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearchFunc(c.tried, from, time.Time.Compare)
	if i == len(c.tried) || c.tried[i].After(to) {
		return from
	}
	return c.tried[i]
}

// watch notes which changes the proxy sees, and when.
func (c *client) watch(ctx context.Context) {
	last := -1
	for ctx.Err() == nil {
		changed, snap := c.Stream().Changed(), c.Stream().Snapshot()
		if n := number(snap.Get.Addrs()); n > last {
			last = n
			c.mu.Lock()
			c.seen = append(c.seen, sight{n, time.Now()})
			c.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// saw returns when the proxy first saw a change or a later one.
func (c *client) saw(change int) (at time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearchFunc(c.seen, change, func(s sight, n int) int { return s.change - n })
	if i == len(c.seen) {
		return time.Time{}, false
	}
	return c.seen[i].at, true
}

// settled reports whether the proxy has a stream with a message, and that is the last of its openings.
func (c *client) settled() bool {
	all, now := c.Openings(), c.Stream().Status()
	return now.First != nil && len(all) > 0 && all[len(all)-1].First.Equal(now.First.At)
}

// at returns where the proxy has had its last stream.
func (c *client) at() string {
	all := c.Openings()
	return all[len(all)-1].Addr
}

// patience bounds waits that no test is about.
const patience = 2 * time.Minute

// await waits until all proxies have seen a change, and are settled.
func (c *crowd) await(ctx context.Context, change int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < len(c.all); {
		if _, ok := c.all[i].saw(change); ok && c.all[i].settled() {
			i++
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("proxy %d has not seen change %d: %w; its last stream: %v", i, change, ctx.Err(), c.all[i].Stream().Status().Err)
		}
	}
	return nil
}

// faults returns what the gateway sent that it must not, and which endpoints proxies were without.
func (c *crowd) faults() error {
	var errs []error
	for i, one := range c.all {
		if f := one.Stream().Status().Faults; len(f) > 0 {
			errs = append(errs, fmt.Errorf("proxy %d: faults %q", i, f))
		}
		if err := one.Stream().Flapped(stay...); err != nil {
			errs = append(errs, fmt.Errorf("proxy %d: %w", i, err))
		}
	}
	return errors.Join(errs...)
}
