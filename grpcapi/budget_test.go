package grpcapi

import (
	"runtime"
	"testing"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
	"isthmus/grpcapi/wire"
)

// TestHold: the messages of one stream count for as long as they are used, and no
// longer.
func TestHold(t *testing.T) {
	b := newBudget(Options{ViewBytes: 1})
	var enc wire.Encoder
	frames := b.hold(enc.Full(&federation.Set{Endpoints: wiretest.Many(1000, 0)}))
	for range 3 {
		runtime.GC()
	}
	if got := b.used.Load(); got != int64(frames[0].Size()) || got < 10_000 {
		t.Errorf("%d bytes are held of a message of %d", got, frames[0].Size())
	}
	runtime.KeepAlive(frames)
	frames = nil
	wiretest.Until(t, "nothing is held", func() bool { runtime.GC(); return b.used.Load() == 0 })
}
