package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// contenders are replicas that take part in elections until the test ends.
type contenders struct {
	t      *testing.T
	api    *leaseAPI
	random *rand.Rand
	faults atomic.Bool

	mu          sync.Mutex
	leading     map[string]func() bool // the leaders, and whether each may write
	leaderships int
}

// mayWrite returns the replicas that may write now.
func (c *contenders) mayWrite() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, may := range c.leading {
		if may() {
			names = append(names, name)
		}
	}
	return names
}

// begins records that a replica begins to lead. If another replica may still write, begins fails
// the test.
func (c *contenders) begins(name string, may func() bool) {
	if others := c.mayWrite(); len(others) > 0 {
		c.t.Errorf("%s begins while %v may write", name, others)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leading[name] = may
	c.leaderships++
}

// start starts a replica that takes part in elections. After stop is called, the replica may still
// write for the time drains.
func (c *contenders) start(name string, skew, drains time.Duration, seed uint64) (stop func()) {
	client := &leaseClient{api: c.api, skew: skew, way: unreliable(rand.New(rand.NewPCG(seed, 2)), c.faults.Load)}
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := Run(ctx, client.config(name), func(work context.Context, leadership *Leadership) {
			c.begins(name, func() bool { return leadership.Write(func(context.Context) error { return nil }) == nil })
			<-work.Done()
			if ctx.Err() != nil {
				select {
				case <-leadership.ctx.Done():
				case <-time.After(drains):
				}
			}
			c.mu.Lock()
			delete(c.leading, name)
			c.mu.Unlock()
		})
		if err != nil {
			c.t.Error(err)
		}
	}()
	return func() { cancel(); <-done }
}

// pass lets time pass, and returns the longest time for which no replica could write.
func (c *contenders) pass(d time.Duration) (without time.Duration) {
	c.t.Helper()
	last := time.Now()
	for end := last.Add(d); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		synctest.Wait()
		switch names := c.mayWrite(); len(names) {
		case 0:
			without = max(without, time.Since(last))
		case 1:
			last = time.Now()
		default:
			c.t.Fatalf("%v may write", names)
		}
	}
	return without
}

// TestContenders checks that at most one replica may write, for any responses of the API server
// and any clocks of the replicas. Once the API server works, one replica may write soon. A stopped
// replica is replaced within seconds. The Lease counts each new holder.
func TestContenders(t *testing.T) {
	leaderships, unled := 0, time.Duration(0)
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &contenders{
					t:       t,
					random:  rand.New(rand.NewPCG(seed, 1)),
					leading: make(map[string]func() bool),
					api:     &leaseAPI{},
				}
				c.api.changed = func(was, is *coordinationv1.Lease) { checkTransitions(t, was, is) }
				c.faults.Store(true)
				stops := make(map[string]func())
				for i := range 2 + c.random.IntN(3) {
					name := string(rune('a' + i))
					stops[name] = c.start(
						name,
						time.Duration(c.random.IntN(7200)-3600)*time.Second,
						time.Duration(c.random.IntN(15))*time.Second,
						seed*10+uint64(i),
					)
				}
				unled = max(unled, c.pass(20*time.Minute))
				c.faults.Store(false)
				// Wait for delayed writes and for the expiry of the Lease of a stopped replica.
				c.pass(leaseDuration + 20*time.Second)
				if without := c.pass(10 * time.Minute); without > time.Second {
					t.Errorf("nobody led for %v although the API server works", without)
				}
				for len(stops) > 1 {
					name := c.mayWrite()[0]
					go stops[name]()
					delete(stops, name)
					if without := c.pass(time.Minute); without > 3*retryPeriod {
						t.Errorf("nobody led for %v after %s was stopped", without, name)
					}
				}
				for _, stop := range stops {
					stop()
				}
				if holder := *c.api.spec().HolderIdentity; holder != "" {
					t.Errorf("%q holds the Lease at the end", holder)
				}
				leaderships += c.leaderships
			})
		})
	}
	if t.Logf(
		"%d leaderships, nobody led for up to %v", leaderships, unled,
	); leaderships < 300 || unled < leaseDuration {
		t.Errorf("%d leaderships, nobody led for up to %v: the test covers too few changes", leaderships, unled)
	}
}

// checkTransitions checks that the Lease counts its holders. The count grows when a replica takes
// the Lease from nobody or from another replica.
func checkTransitions(t *testing.T, was, is *coordinationv1.Lease) {
	var before int32
	if was == nil {
		before = 0
	} else if before = *was.Spec.LeaseTransitions; *is.Spec.HolderIdentity != "" &&
		*is.Spec.HolderIdentity != *was.Spec.HolderIdentity {
		before++
	}
	if *is.Spec.LeaseTransitions != before {
		t.Errorf("%d transitions, want %d", *is.Spec.LeaseTransitions, before)
	}
}
