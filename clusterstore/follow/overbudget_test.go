package follow

import (
	"context"
	"fmt"
	"strings"
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
		Name: "secrets", Needed: needed, Source: g.calls().source(), Fields: "type=x", Into: known,
		Compact: func(o *corev1.Secret) (string, bool) { return o.Labels["x"], true }, Same: sameAs[string],
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
		if h.Err == nil || h.StaleSince.IsZero() || !strings.Contains(h.Err.Error(), "over budget: what is kept of secrets would take") {
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
	if before < 30 || before > 60 {
		t.Errorf("%d objects are kept", before)
	}

	// Lists, as long as it goes on.
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	expectOver("lists")
	g.mu.Lock()
	if g.attempts < 60 || g.attempts > 121 {
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
	time.Sleep(maxOverPause + 10*time.Second)
	synctest.Wait()
	if h := group.Health(); h.Err != nil || !h.StaleSince.IsZero() || objects(group) != 2 || b.Usage().Used != few {
		t.Errorf("afterwards: %+v, %d objects, %+v", h, objects(group), b.Usage())
	}
}

// TestOverSince: a resource that has been over budget since the start is lost since then, however often it is tried,
// until it fits.
func TestOverSince(t *testing.T) {
	s := &scripted{version: "1", items: []item{labelled("a", strings.Repeat("x", 2<<10))}}
	s.run(t, Options{NoWatchList: true, Budget: newBudget(1 << 10)}, func(t *testing.T, g *Group, known texts) {
		began := time.Now()
		for range 3 {
			time.Sleep(time.Minute)
			if h := g.Health(); !h.StaleSince.Equal(began) || h.Err == nil || h.Resources[0].Synced {
				t.Errorf("%+v, began %v", h, began)
			}
		}
		if n := s.count(); n < 10 {
			t.Errorf("%d attempts", n)
		}
		s.become("2", labelled("a", "1"))
		time.Sleep(maxOverPause)
		synctest.Wait()
		if h := g.Health(); !h.StaleSince.IsZero() || h.Err != nil || known["ns/a"] != "1" {
			t.Errorf("afterwards: %+v", h)
		}
	})
}

// TestStaged: what is staged counts beside what is kept. Objects that are as they were take next to nothing, and
// a list all of which differs fits if it fits alone.
func TestStaged(t *testing.T) {
	b := newBudget(8 << 10)
	r := New(Kind[*corev1.Secret, string]{
		Name: "secrets", Into: texts{}, Compact: func(o *corev1.Secret) (string, bool) { return o.Labels["x"], true }, Same: sameAs[string],
	})
	NewGroup(Options{Budget: b}, r)
	f := r.feed.(*feed[*corev1.Secret, string])
	list := func(x string) (peak int64) {
		f.beginList()
		for i := range 10 {
			if err := f.stageObject(f.compact(labelled(fmt.Sprint("n", i), x).object, nil)); err != nil {
				t.Fatal(err)
			}
		}
		peak = b.Usage().Used
		f.commit(false)
		return peak
	}
	one := sizeOf("ns/n0", "x1", 0, false)
	for i, want := range []int64{10 * one, 10 * (one + sameSize), 20 * one} {
		x := "x1"
		if i == 2 {
			x = "x2"
		}
		if peak, after := list(x), b.Usage().Used; peak != want || after != 10*one {
			t.Errorf("list %d takes %d, not %d, and %d of %d afterwards", i, peak, want, after, 10*one)
		}
	}
	f.beginList()
	_ = f.stageObject(f.compact(labelled("n0", "other").object, nil))
	f.abandonList()
	if used := b.Usage().Used; used != 10*one || r.objects.Load() != 10 {
		t.Errorf("after a list that has failed: %d bytes, %d objects", used, r.objects.Load())
	}
}
