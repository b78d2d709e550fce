package pace

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// work runs n workers until the returned function is called.
func work(t *testing.T, d *Dirty[string], n int, handle func(string, time.Time)) (end func()) {
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range n {
		all.Go(func() { d.Run(ctx, handle) })
	}
	return func() { stop(); all.Wait() }
}

// TestOthersDoNotWait checks that a tenant whose slow key is added repeatedly does not delay
// others. Other tenants wait only for the key in progress, and then take turns.
func TestOthersDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDirty[string]()
		handled := 0
		end := work(t, d, 1, func(key string, _ time.Time) {
			if key == "web" {
				d.Add("busy", "web", time.Now())
				time.Sleep(time.Second)
				return
			}
			handled++
		})
		d.Add("busy", "web", time.Now())
		time.Sleep(10500 * time.Millisecond)
		for i := range 100 {
			d.Add(fmt.Sprint("quiet-", i), "", time.Now())
		}
		time.Sleep(time.Second)
		end()
		if handled != 100 {
			t.Errorf("%d of 100 keys were handled within a second", handled)
		}
	})
}

// TestCollapse checks that a key that is added many times is handled once, with the time of the
// first Add. A key that is added while it is handled is handled again.
func TestCollapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDirty[string]()
		first := time.Now()
		for range 1000 {
			d.Add("shop", "web", time.Now())
			time.Sleep(time.Millisecond)
		}
		var times []time.Time
		d.Drain(t.Context(), func(_ string, at time.Time) {
			if len(times) == 0 {
				d.Add("shop", "web", time.Now())
			}
			times = append(times, at)
		})
		if len(times) != 2 || !times[0].Equal(first) || !times[1].Equal(first.Add(time.Second)) {
			t.Errorf("handled at %v", times)
		}
	})
}

// TestWorkers checks that one worker handles a tenant's keys while another handles those of other
// tenants.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDirty[string]()
		var mu sync.Mutex
		began := make(map[string]time.Duration)
		start := time.Now()
		defer work(t, d, 2, func(key string, _ time.Time) {
			mu.Lock()
			began[key] = time.Since(start)
			mu.Unlock()
			if key != "quick" {
				time.Sleep(time.Hour)
			}
		})()
		d.Add("slow", "1", start)
		d.Add("slow", "2", start)
		d.Add("other", "quick", start)
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		if _, second := began["2"]; second || began["quick"] != 0 || len(began) != 2 {
			t.Errorf("began %v", began)
		}
		mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		mu.Lock()
		if began["2"] != time.Hour {
			t.Errorf("began %v", began)
		}
		mu.Unlock()
	})
}

// TestPanic checks that a key whose handler panics blocks neither its tenant nor other workers.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDirty[string]()
		d.Add("shop", "broken", time.Now())
		d.Add("shop", "web", time.Now())
		func() {
			defer func() {
				if recover() != "broken" {
					t.Error("the panic was swallowed")
				}
			}()
			d.Drain(t.Context(), func(key string, _ time.Time) { panic(key) })
		}()
		var handled []string
		end := work(t, d, 1, func(key string, _ time.Time) { handled = append(handled, key) })
		synctest.Wait()
		d.Add("shop", "api", time.Now())
		synctest.Wait()
		end()
		if fmt.Sprint(handled) != "[web api]" {
			t.Errorf("handled %v", handled)
		}
	})
}

// testTurns are turns of keys that begin with their tenant.
type testTurns struct{ *turns[string] }

func newTestTurns() testTurns { return testTurns{newTurns[string]()} }

func (q testTurns) add(key string) { q.push(tenantOf(key), key) }

func tenantOf(key string) string {
	tenant, _, _ := strings.Cut(key, "/")
	return tenant
}

// TestForgotten checks that former tenants leave nothing behind while one tenant always has work.
func TestForgotten(t *testing.T) {
	q := newTestTurns()
	q.add("busy/0")
	for i := range 10_000 {
		q.add("busy/0")
		key := fmt.Sprintf("n%d/0", i)
		q.add(key)
		for range 2 {
			tenant, _, _ := q.pop()
			q.done(tenant)
		}
	}
	if n := len(q.tenants) + len(q.order); n > 10 {
		t.Errorf("%d tenants are still cached", n)
	}
}

// TestTurnsAgainstList compares turns with lists. len is 0 if and only if pop returns nothing. No
// key is lost or invented, and a tenant's keys keep their order. No other tenant gets two turns
// while a tenant can start a key.
func TestTurnsAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newTestTurns()
		waiting := make(map[string][]string)
		busy := make(map[string]bool)
		passed := make(map[string]map[string]int) // by tenant: how often others had a turn since it could begin a key
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			tenant := string(rune('a' + rapid.IntRange(0, 3).Draw(t, "tenant")))
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				key := fmt.Sprintf("%s/%d", tenant, i)
				q.add(key)
				waiting[tenant] = append(waiting[tenant], key)
			case 1:
				may := false
				for o, keys := range waiting {
					may = may || len(keys) > 0 && !busy[o]
				}
				some := q.len() > 0
				o, key, ok := q.pop()
				if ok != may || some != may {
					t.Fatalf("pop %q: %v, len above 0: %v, want %v", key, ok, some, may)
				}
				if !ok {
					continue
				}
				if len(waiting[o]) == 0 || waiting[o][0] != key || busy[o] {
					t.Fatalf("pop returned %s while %v is waiting, and busy is %v", key, waiting[o], busy[o])
				}
				waiting[o] = waiting[o][1:]
				busy[o] = true
				for other, keys := range waiting {
					if other == o || len(keys) == 0 || busy[other] {
						delete(passed, other)
						continue
					}
					if passed[other] == nil {
						passed[other] = make(map[string]int)
					}
					if passed[other][o]++; passed[other][o] > 1 {
						t.Fatalf("%s had two turns while %s waited", o, other)
					}
				}
			case 2:
				if busy[tenant] {
					busy[tenant] = false
					q.done(tenant)
				}
			}
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
