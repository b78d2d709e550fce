package wire

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
	"weak"

	"google.golang.org/grpc/mem"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// TestRoutings: equal keys have the same routing for as long as it is used. After
// that it is freed.
func TestRoutings(t *testing.T) {
	rs := NewRoutings(anySize)
	sp := wiretest.ServiceProfile("a")
	sp.Overrides = []federation.Override{{Authority: "web-b.shop", Weight: 1}}
	one, same, other := rs.Of(sp, 80), rs.Of(sp, 80), rs.Of(sp, 81)
	if one != same || one == other || bytes.Equal(one.data(), other.data()) {
		t.Error("not one routing for each port")
	}
	if &one.data()[0] != &same.data()[0] {
		t.Error("encoded twice")
	}
	enc := encoderFor(t, Options{}, "")
	for _, client := range []bool{false, true} { // each namespace's clients have a profile of their own
		frame := enc.Profile(&federation.Profile{Name: "web", Opaque: client}, one)
		if !slices.ContainsFunc(frame.data, func(b mem.Buffer) bool { return &b.ReadOnlyData()[0] == &one.data()[0] }) {
			t.Error("a profile has a copy of its routing")
		}
	}
	if rs.Of(nil, 80) != rs.Of(nil, 81) {
		t.Error("more than one default")
	}
	size := func() int {
		runtime.GC()
		rs.mu.Lock()
		defer rs.mu.Unlock()
		return len(rs.all)
	}
	wiretest.Until(t, "the other is forgotten", func() bool { return size() == 1 })
	if rs.Of(sp, 80) != one {
		t.Error("forgotten while it is used")
	}
	runtime.KeepAlive(one)
	wiretest.Until(t, "both are forgotten", func() bool { return size() == 0 })
}

// TestForgetLate: to forget a freed routing does not remove its successor.
func TestForgetLate(t *testing.T) {
	rs := NewRoutings(anySize)
	sp := wiretest.ServiceProfile("a")
	now := rs.Of(sp, 80)
	rs.forget(routingKey{sp, 80}, weak.Make(&Routing{}))
	if rs.Of(sp, 80) != now {
		t.Error("made again")
	}
}

// anySize ignores routings that are too large.
func anySize(*federation.ServiceProfile, int) {}
