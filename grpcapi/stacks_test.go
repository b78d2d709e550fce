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
// been sent updates. Of each update one stream of a view is the first to send it, which encodes
// it: that may leave it with 8 KiB for good. Which stream that is depends on what else the
// machine does, so each time it may be another, and on a busy machine some more grow. If all
// did, it would be 8 KiB for each.
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

// stacks is how much stacks take after a collection, which gives back those of
// goroutines that have ended.
func stacks() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.StackInuse
}
