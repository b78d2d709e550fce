package faults

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"isthmus/e2e/object"
	"isthmus/e2e/proxy"
)

// TestSilentWatches links clusters whose API servers answer watches by 200 and then send nothing more, or a part of an
// event, while the connection is alive. What changes meanwhile is noticed within two minutes, for which it waits beside
// other tests.
func TestSilentWatches(t *testing.T) {
	t.Parallel()
	var actors []*actor
	for name, begins := range map[string][]byte{"nothing": nil, "a-part": eventOf("MODIFIED", make([]byte, 100))[:50]} {
		actors = append(actors, newActor(t, name, func(w http.ResponseWriter, r *http.Request, resource string) bool {
			switch {
			case isStreamedList(r):
				return answer(w, http.StatusUnprocessableEntity, "{}") // an older server
			case !isWatch(r):
				return false
			}
			answerIn(w, watchType, begins)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		}, object.Service("ns", "far"), object.Slice("ns", "far", "one", object.Endpoint("10.1.0.1"))))
	}
	w, own := newActors(t, actors...)
	streams := make(map[*actor]*proxy.Stream)
	for _, a := range actors {
		w.awaitState(t, a.name, "ready", recovery)
		must(t, own.Put(object.Mirror("ns", a.name, a.name, "far")))
		streams[a] = w.subscribeToNew(t, proxy.Get, a.name, "ns")
	}
	has := func(a *actor, addr string) func() error {
		return func() error {
			if now := streams[a].Snapshot(); !now.Get.Has(netip.MustParseAddrPort(addr)) {
				return fmt.Errorf("%s: %s is missing: %v (%v)", a.name, addr, now.Get.Addrs(), now.Err)
			}
			return nil
		}
	}
	for _, a := range actors {
		await(t, recovery, has(a, fmt.Sprintf("10.1.0.1:%d", object.Port)))
		must(t, a.api.Put(object.Slice("ns", "far", "two", object.Endpoint("10.1.0.2"))))
	}
	began := time.Now()
	for _, a := range actors {
		await(t, either(3*time.Minute, 2*time.Minute), has(a, fmt.Sprintf("10.1.0.2:%d", object.Port)))
		t.Logf("%s: noticed after %v", a.name, time.Since(began).Round(time.Second))
		w.awaitState(t, a.name, "ready", recovery)
	}
}
