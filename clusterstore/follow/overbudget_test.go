package follow

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/budget"
)

// TestOverBudget: a list without end, in pages or streamed, is cut off by the budget, and
// so are events; what was kept stays. It is tried again after a pause, not in a loop, and
// once the API is well it is followed as ever.
func TestOverBudget(t *testing.T) {
	for _, streams := range []bool{false, true} {
		for _, needed := range []bool{false, true} {
			t.Run(fmt.Sprintf("streams=%v needed=%v", streams, needed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testOverBudget(t, streams, needed) })
			})
		}
	}
}

func testOverBudget(t *testing.T, streams, needed bool) {
	g := &greedy{api: &api{names: []string{"a", "b"}}}
	known := texts{}
	pool := budget.NewPool(budget.Limits{Cluster: 64 << 10, All: 128 << 10})
	b := pool.Add()
	r := New(Kind[*corev1.Secret, string]{
		Name: "secrets", Needed: needed, Calls: g.calls(), Fields: "type=x", Into: known,
		Compact: func(o *corev1.Secret) (string, bool) { return o.Labels["x"], true },
	})
	group := NewGroup(Options{NoWatchList: !streams, Budget: b}, r)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); group.Run(ctx, nil) }()
	defer func() { cancel(); <-done }()
	time.Sleep(time.Minute)
	synctest.Wait()
	few := b.Usage().Used
	if h := group.Health(); h.Err != nil || objects(group) != 2 || few < 2*objectSize || few > 8*objectSize {
		t.Fatalf("at first: %+v, %d objects, %d bytes", h, objects(group), few)
	}
	expectOver := func(what string) {
		t.Helper()
		h := group.Health()
		if h.Err == nil || h.Lost.IsZero() || !strings.Contains(h.Err.Error(), "over budget: what is kept of secrets would take") {
			t.Fatalf("%s: %+v", what, h)
		}
		if used := b.Usage().Used; used > 64<<10 {
			t.Errorf("%s: %d bytes are charged", what, used)
		}
	}

	// Events that add objects.
	g.mu.Lock()
	g.bad = true
	w := g.events
	g.mu.Unlock()
	for i := 0; w.send(watch.Added, large(fmt.Sprint("e", i))); i++ {
	}
	synctest.Wait()
	expectOver("events")
	before := objects(group)
	if before < 5 || before > 30 {
		t.Errorf("%d objects are kept", before)
	}

	// Lists, as long as it goes on.
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	expectOver("lists")
	g.mu.Lock()
	if g.attempts < 20 || g.attempts > 31 {
		t.Errorf("%d attempts in ten minutes", g.attempts)
	}
	if g.streamed > 0 {
		t.Errorf("%d lists are streamed, which do not show how many objects are to come", g.streamed)
	}
	g.bad = false
	g.mu.Unlock()
	if objects(group) != before {
		t.Errorf("%d objects of %d have stayed", objects(group), before)
	}
	time.Sleep(overPause + 10*time.Second)
	synctest.Wait()
	if h := group.Health(); h.Err != nil || !h.Lost.IsZero() || objects(group) != 2 || b.Usage().Used != few {
		t.Errorf("afterwards: %+v, %d objects, %+v", h, objects(group), b.Usage())
	}
}

// TestOverMeanwhile: a resource that is over budget at the same moment as its watch has
// begun, or has proven itself, is not healthy.
func TestOverMeanwhile(t *testing.T) {
	for i := range 30_000 {
		r := New(Kind[*corev1.Secret, bool]{Name: "secrets", Needed: true, Into: names{}})
		g := NewGroup(Options{}, r)
		before := budget.Errorf("before")
		if i%2 == 1 {
			r.exceed(before)
		}
		then := r.over.probation.Load()
		start := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { <-start; r.exceed(budget.Errorf("now")) })
		all.Go(func() { <-start; r.proven(then) })
		close(start)
		all.Wait()
		if err := g.Health().Err; err == nil || !strings.HasSuffix(err.Error(), "now") {
			t.Fatalf("attempt %d: %v", i, err)
		}
	}
}
