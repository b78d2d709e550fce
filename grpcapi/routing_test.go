package grpcapi

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"go.uber.org/zap"

	"isthmus/federation"
)

// TestProfileOfManyNamespaces: what a ServiceProfile says is held once, however
// many namespaces its clients are in, or say that they are in, and not at all
// once nobody listens.
func TestProfileOfManyNamespaces(t *testing.T) {
	const namespaces, size = 300, 1 << 20
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		told := webProfile("a")
		told.Routes.Routes[0].Condition.Text = strings.Repeat("x", size)
		key := func(i int) federation.ProfileKey {
			return federation.ProfileKey{Service: web, Port: 80, Namespace: fmt.Sprint("ns", i)}
		}
		for i := range namespaces {
			w.told.put(key(i), with(told, func(*federation.Profile) {}))
		}
		before, calls := heap(), make([]*call, namespaces)
		for i := range calls {
			calls[i] = w.getProfile(webAddr, key(i).Namespace)
			calls[i].sees(t, "web routes a")
		}
		w.profileViews(t, namespaces, 0)
		live := heap() - before
		for _, c := range calls {
			c.hangUp()
		}
		w.profileViews(t, namespaces, namespaces)
		calls = nil
		idle := heap() - before
		t.Logf("%d KiB live, %d KiB idle", live>>10, idle>>10)
		if live > 4*size || idle > 2*size {
			t.Errorf("%d KiB while there are streams, %d KiB after that", live>>10, idle>>10)
		}
		time.Sleep(time.Minute)
		w.profileViews(t, 0, 0)
	})
}

// heap is what is allocated after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestRoutings: equal keys have the same routing for as long as it is used, and
// nothing is left of it after that.
func TestRoutings(t *testing.T) {
	rs := newRoutings(zap.NewNop())
	sp := serviceProfile("a")
	sp.Overrides = []federation.Override{{Authority: "web-b.shop", Weight: 1}}
	one, same, other := rs.of(sp, 80), rs.of(sp, 80), rs.of(sp, 81)
	if one != same || one == other || bytes.Equal(one.data(), other.data()) {
		t.Error("not one routing for each port")
	}
	if &one.data()[0] != &same.data()[0] {
		t.Error("encoded twice")
	}
	if rs.of(nil, 80) != rs.of(nil, 81) {
		t.Error("more than one default")
	}
	size := func() int {
		runtime.GC()
		rs.mu.Lock()
		defer rs.mu.Unlock()
		return len(rs.all)
	}
	until(t, "the other is forgotten", func() bool { return size() == 1 })
	if rs.of(sp, 80) != one {
		t.Error("forgotten while it is used")
	}
	runtime.KeepAlive(one)
	until(t, "both are forgotten", func() bool { return size() == 0 })
}

// TestForgetLate: what is no more takes nothing away from what came after it.
func TestForgetLate(t *testing.T) {
	rs := newRoutings(zap.NewNop())
	sp := serviceProfile("a")
	now := rs.of(sp, 80)
	rs.forget(routingKey{sp, 80}, weak.Make(&routing{}))
	if rs.of(sp, 80) != now {
		t.Error("made again")
	}
}
