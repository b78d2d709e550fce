package grpcapi

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// TestProfileOfManyNamespaces: an encoded ServiceProfile is in memory once, however many
// namespaces its clients are in, or pretend to be in, and not at all without streams.
func TestProfileOfManyNamespaces(t *testing.T) {
	const namespaces, size = 300, 1 << 20
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		profile := wiretest.WebProfile("a")
		profile.Routes.Routes[0].Condition.Text = strings.Repeat("x", size)
		key := func(i int) federation.ProfileKey {
			return federation.ProfileKey{Service: web, Port: 80, Namespace: fmt.Sprint("ns", i)}
		}
		for i := range namespaces {
			w.profiles.put(key(i), with(profile, func(*federation.Profile) {}))
		}
		before, calls := heap(), make([]*caller, namespaces)
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

// heap returns how much is allocated after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
