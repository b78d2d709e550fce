package follow

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestOverBudget: a list without end is cut off by the budget, and so are events; what was kept stays. It
// is tried again after a pause, not in a loop, and once the API is well it is followed as ever.
func TestOverBudget(t *testing.T) {
	for _, needed := range []bool{false, true} {
		t.Run(fmt.Sprintf("needed=%v", needed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testOverBudget(t, needed) })
		})
	}
}

func testOverBudget(t *testing.T, needed bool) {
	f := &flooded{objects: 2}
	group, b := followFlooded(t, Options{}, needed, f)
	few := b.Usage().Used
	objects := func() int { return group.Health().Resources[0].Objects }
	if objects() != 2 || few < 2*textSize("", "") || few > 4*textSize("", "") {
		t.Fatalf("at first %d objects, %d bytes", objects(), few)
	}
	expectOver := func(what string) {
		t.Helper()
		synctest.Wait()
		h := group.Health()
		if h.Err == nil || h.StaleSince.IsZero() ||
			!strings.Contains(h.Err.Error(), "over budget: the cache of secrets0 would take") {
			t.Fatalf("%s: %+v", what, h)
		}
		if used := b.Usage().Used; used > 64<<10 {
			t.Errorf("%s: %d bytes are charged", what, used)
		}
	}
	f.mu.Lock()
	lists := len(f.lists)
	f.objects, f.label = 1<<30, strings.Repeat("x", 1<<10)
	f.mu.Unlock()
	f.flood()
	expectOver("events")
	before := objects()
	if before < 30 || before > 60 {
		t.Errorf("%d objects are kept", before)
	}
	time.Sleep(10 * time.Minute)
	expectOver("lists")
	f.mu.Lock()
	if n := len(f.lists) - lists; n < 60 || n > 121 {
		t.Errorf("%d attempts in ten minutes", n)
	}
	f.objects, f.label = 2, ""
	f.mu.Unlock()
	if objects() != before {
		t.Errorf("%d objects of %d have stayed", objects(), before)
	}
	time.Sleep(maxOverPause + 10*time.Second)
	synctest.Wait()
	if h := group.Health(); h.Err != nil || !h.StaleSince.IsZero() || objects() != 2 || b.Usage().Used != few {
		t.Errorf("afterwards: %+v, %+v", h, b.Usage())
	}
}

// TestStaged checks what counts while a list is read: the larger of cache and list, and what is staged beside the
// cache. Objects that are cached as they are take next to nothing there. A list of objects that all differ fits if it
// fits alone.
func TestStaged(t *testing.T) {
	b := NewMemoryCap(4000)
	r := New(secrets(nil, texts{}))
	NewGroup(Options{Memory: b}, r)
	f := secretsFeed(r)
	list := func(x string) (counted, staged int64) {
		f.beginList()
		for i := range 10 {
			if err := f.stageObject(f.compact(labelled(fmt.Sprint("n", i), x).object, nil)); err != nil {
				t.Fatal(err)
			}
		}
		counted, staged = b.counted, b.staged
		f.commit()
		return counted, staged
	}
	one := objectSize + int64(len("ns/n0")) + textSize("x1", "")
	for i, want := range []int64{10 * one, 10 * sameSize, 10 * one} {
		x := "x1"
		if i == 2 {
			x = "x2"
		}
		counted, staged := list(x)
		if counted != 10*one || staged != want {
			t.Errorf("list %d: %d bytes count, and %d are staged; want %d and %d", i, counted, staged, 10*one, want)
		}
		if b.counted != 10*one || b.staged != 0 {
			t.Errorf("after list %d: %d bytes count, and %d are staged; want %d", i, b.counted, b.staged, 10*one)
		}
	}
	f.beginList()
	_ = f.stageObject(f.compact(labelled("n0", "other").object, nil))
	f.abandonList()
	if used := b.Usage().Used; used != 10*one || r.objects.Load() != 10 {
		t.Errorf("after a list that has failed: %d bytes, %d objects", used, r.objects.Load())
	}
}
