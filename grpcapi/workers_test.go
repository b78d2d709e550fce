package grpcapi

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/zap"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// TestWorkers: what is done at the same time is, and workers end by themselves.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers()
		var began, done atomic.Int64
		gate := make(chan struct{})
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				w.do(func() { began.Add(1); <-gate; done.Add(1) })
			})
		}
		synctest.Wait()
		if began.Load() != 10 || done.Load() != 0 {
			t.Fatalf("%d have begun, %d are done", began.Load(), done.Load())
		}
		close(gate)
		callers.Wait()
		if done.Load() != 10 {
			t.Fatalf("%d are done", done.Load())
		}
		synctest.Wait()
		idle := w.alive.Load()
		for range 100 {
			w.do(func() { done.Add(1) })
			synctest.Wait()
		}
		if now := w.alive.Load(); done.Load() != 110 || idle != 10 || now > idle {
			t.Errorf("%d are done; %d workers have become %d", done.Load(), idle, now)
		}
		time.Sleep(2 * workerLinger)
		synctest.Wait()
		if left := w.alive.Load(); left > 0 {
			t.Errorf("%d workers are left", left)
		}
	})
}

// TestWorkersPanic: a panic comes out where it would have, with where it was.
func TestWorkersPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers()
		for range 3 {
			func() {
				defer func() {
					if said, _ := recover().(string); !strings.HasPrefix(said, "cursed\n") || !strings.Contains(said, "explode") {
						t.Errorf("recovered %q", said)
					}
				}()
				w.do(explode)
			}()
		}
		fine := false
		w.do(func() { fine = true })
		if !fine {
			t.Error("nothing is done after a panic")
		}
		time.Sleep(2 * workerLinger)
	})
}

func explode() { panic("cursed") }

// TestWaitingTakesNoWorker: streams that wait for a cluster do that themselves.
func TestWaitingTakesNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Log: zap.NewNop()})
		w.offer("", pods("10.0.0.1:80")...)
		w.link("east", federation.Pending)
		var calls []*caller
		for range 50 {
			calls = append(calls, w.get("web.shop.svc.cluster.local:80", ""))
		}
		time.Sleep(2 * workerLinger)
		synctest.Wait()
		if n, open := w.server.workers.alive.Load(), w.server.Streams(); n != 0 || open != len(calls) {
			t.Errorf("%d workers for %d streams", n, open)
		}
		for _, c := range calls {
			c.cancel()
			<-c.done
		}
	})
}

// TestStreamsKeepSmallStacks: an open stream's goroutine has a stack of 4 KiB, also
// after it has been told of changes, each of which another stream is the first to
// be told of.
func TestStreamsKeepSmallStacks(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes room on stacks; make unit runs this package without it too")
	}
	for _, method := range []string{"Get", "GetProfile"} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t, Options{Pace: -1, Linger: -1, Log: zap.NewNop()})
			tell := func(turn int) {
				w.offer("", pods([]string{"10.0.0.1:80", "10.0.0.2:80"}[:1+turn]...)...)
				for p := range 1000 {
					profile := wiretest.WebProfile("a")
					if turn > 0 {
						profile = with(profile, opaque)
					}
					w.profiles.put(federation.ProfileKey{Service: web, Port: uint16(1 + p)}, profile)
				}
			}
			tell(0)
			addr := listening(t, w.server.GRPC())
			before := stacks()
			hangUp := crowd(t, addr, method)
			defer hangUp()
			sent := w.server.metrics.calls.methods["/"+pb.Destination_ServiceDesc.ServiceName+"/"+method].sent
			for turn := range 4 {
				tell((1 + turn) % 2)
				for deadline := time.Now().Add(time.Minute); value(sent) < float64(10_000*(turn+2)); time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%v messages after %d turns", value(sent), turn+1)
					}
				}
			}
			if each := (stacks() - before) / 10_000; each > 5500 { // some have been the first to be told
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
