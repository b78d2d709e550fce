package grpcapi

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"

	"isthmus/federation"
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

// raceEnabled reports whether the race detector is on.
var raceEnabled = func() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()
