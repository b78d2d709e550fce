package grpcapi

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/zap"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// TestRunDeepPanic: a panic comes out where it would have, with where it was.
func TestRunDeepPanic(t *testing.T) {
	func() {
		defer func() {
			if r, _ := recover().(string); !strings.HasPrefix(r, "cursed\n") || !strings.Contains(r, "explode") {
				t.Errorf("recovered %q", r)
			}
		}()
		runDeep(explode)
	}()
}

func explode() { panic("cursed") }

// TestWaitingTakesNoGoroutine: streams that wait for a cluster do that themselves.
func TestWaitingTakesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Log: zap.NewNop()})
		w.offer("", pods("10.0.0.1:80")...)
		w.link("east", federation.Pending)
		calls := make([]*caller, 50)
		for i := range calls {
			calls[i] = w.get("web.shop.svc.cluster.local:80", "")
		}
		synctest.Wait()
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if n, open := bytes.Count(stacks, []byte("created by isthmus/grpcapi.runDeep ")), w.server.Streams(); n != 0 || open != len(calls) {
			t.Errorf("%d goroutines more for %d streams", n, open)
		}
		for _, c := range calls {
			c.cancel()
			<-c.done
		}
	})
}

// TestStreamsKeepSmallStacks: an open stream's goroutine has a stack of 4 KiB, also
// after it has been sent updates, each of which another stream is the first to send.
func TestStreamsKeepSmallStacks(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes room on stacks; make unit runs this package without it too")
	}
	for _, method := range []string{"Get", "GetProfile"} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t, Options{Pace: -1, Linger: -1, Log: zap.NewNop()})
			offer := func(turn int) {
				w.offer("", pods([]string{"10.0.0.1:80", "10.0.0.2:80"}[:1+turn]...)...)
				for p := range 1000 {
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
			for turn := range 4 {
				offer((1 + turn) % 2)
				for deadline := time.Now().Add(time.Minute); value(sent) < float64(10_000*(turn+2)); time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%v messages after %d turns", value(sent), turn+1)
					}
				}
			}
			if each := (stacks() - before) / 10_000; each > 5500 { // some have been the first to send
				t.Errorf("a stream takes %d bytes of stack", each)
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

// raceEnabled reports whether the race detector is on.
var raceEnabled = func() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()
