//go:build !race

// The race detector takes room on stacks: make unit runs this package without it too.

package grpcapi

import (
	"runtime"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/zap"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// TestStreamsKeepSmallStacks: an open stream's goroutine has a stack of 4 KiB, also after it has
// been sent some updates. A few sends in a hundred leave a stream with 8 KiB for good: those in
// which an allocation has to do a part of the collector's work. If all did, it would be 8 KiB for each.
func TestStreamsKeepSmallStacks(t *testing.T) {
	const (
		streams, views, turns = 10_000, 1000, 4
		most                  = 7 << 10 // bytes
	)
	for _, method := range []string{"Get", "GetProfile"} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t, Options{Pace: -1, Linger: -1, Log: zap.NewNop()})
			offer := func(turn int) {
				w.offer("", pods([]string{"10.0.0.1:80", "10.0.0.2:80"}[:1+turn]...)...)
				for p := range views {
					profile := wiretest.WebProfile("a")
					if turn > 0 {
						profile = with(profile, opaque)
					}
					w.profiles.put(federation.ProfileKey{Service: web, Port: uint16(1 + p)}, profile)
				}
			}
			offer(0)
			addr := listening(t, w.server.GRPC())
			before := stacks()
			hangUp := crowd(t, addr, method)
			defer hangUp()
			sent := w.server.metrics.calls.methods["/"+pb.Destination_ServiceDesc.ServiceName+"/"+method].sent
			for turn := range turns {
				offer((1 + turn) % 2)
				for deadline := time.Now().Add(time.Minute); value(sent) < float64(streams*(turn+2)); time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%v messages after %d turns", value(sent), turn+1)
					}
				}
			}
			if each := (stacks() - before) / streams; each > most {
				t.Errorf("a stream takes %d bytes of stack, more than %d", each, most)
			}
		})
	}
}

// TestQuietStreamsKeepSmallStacks: so have streams whose connections have nothing else to send,
// as is usual: then a send also wakes the goroutine that writes to the connection.
func TestQuietStreamsKeepSmallStacks(t *testing.T) {
	const (
		streams, views = 10_000, 1000
		most           = 6 << 10 // bytes
	)
	w := newWorld(t, Options{Pace: -1, Linger: -1, Log: zap.NewNop()})
	put := func(view int, profile *federation.Profile) {
		w.profiles.put(federation.ProfileKey{Service: web, Port: uint16(1 + view)}, profile)
	}
	for view := range views {
		put(view, wiretest.WebProfile("a"))
	}
	addr := listening(t, w.server.GRPC())
	before := stacks()
	hangUp := crowd(t, addr, "GetProfile")
	defer hangUp()
	sent := w.server.metrics.calls.methods["/"+pb.Destination_ServiceDesc.ServiceName+"/GetProfile"].sent
	deadline := time.Now().Add(time.Minute)
	for view := range views {
		put(view, with(wiretest.WebProfile("a"), opaque))
		for want := streams + (view+1)*streams/views; value(sent) < float64(want); time.Sleep(100 * time.Microsecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%v messages, not %d", value(sent), want)
			}
		}
	}
	each := (stacks() - before) / streams
	t.Logf("a stream takes %d bytes of stack", each)
	if each > most {
		t.Errorf("that is more than %d", most)
	}
}

// stacks is how much stacks take after a collection, which gives back those of
// goroutines that have ended.
func stacks() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.StackInuse
}
