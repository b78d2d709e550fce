package faults

import (
	"bufio"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"isthmus/e2e/object"
	"isthmus/e2e/proxy"
)

const (
	floodEvents = 100_000
	// floodRate is how many events of a linked cluster the gateway handles a second, after floodBurst at once.
	floodRate, floodBurst = 10_000, 20_000
)

// TestEventFlood: the watch of a cluster's EndpointSlices sends events as fast as the gateway takes them. Each change of
// another cluster that is made meanwhile arrives before the last event of the flood does, and the flood takes as long as
// the events of a cluster are allowed to, so that most of it waits at its server.
func TestEventFlood(t *testing.T) {
	inTurn(t)
	address := func(ip string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(ip), object.Port) }
	const before, waits, last = "10.1.0.249", "10.1.0.250", "10.1.0.251" // waits: there once events wait at the server
	begin, sent := make(chan struct{}), make(chan time.Duration, 1)
	flood := newActor(t, "flood", func(w http.ResponseWriter, r *http.Request, resource string) bool {
		switch {
		case isStreamedList(r):
			return answer(w, http.StatusUnprocessableEntity, "{}") // an older server: what follows a list is a watch of its own
		case !isWatch(r) || resource != "endpointslices":
			return false
		}
		answerIn(w, watchType, nil)
		w.(http.Flusher).Flush()
		select {
		case <-begin:
		case <-r.Context().Done():
			return true
		}
		began := time.Now()
		out := bufio.NewWriter(w)
		for i := range floodEvents {
			slice := object.Slice("ns", "far", "one", object.Endpoint(fmt.Sprintf("10.1.0.%d", 1+i%200)))
			if i > floodBurst {
				slice.Endpoints = append(slice.Endpoints, object.Endpoint(waits))
			}
			if i == floodEvents-1 {
				slice.Endpoints = append(slice.Endpoints, object.Endpoint(last))
			}
			slice.ResourceVersion = strconv.Itoa(1_000_000 + i)
			if _, err := out.Write(eventOf("MODIFIED", inProtobuf("discovery.k8s.io/v1", "EndpointSlice", slice))); err != nil {
				return true
			}
		}
		if out.Flush() == nil {
			w.(http.Flusher).Flush()
			sent <- time.Since(began)
		}
		<-r.Context().Done()
		return true
	}, object.Service("ns", "far"), object.Slice("ns", "far", "one", object.Endpoint(before)))
	calm := newActor(t, "calm", nil, object.Service("ns", "far"), object.Slice("ns", "far", "one", object.Endpoint("10.2.0.249")))
	w, own := newActors(t, flood, calm)
	subscribe := func(a *actor) *proxy.Stream {
		w.awaitState(t, a.name, "ready", recovery)
		must(t, own.Put(object.Mirror("ns", a.name, a.name, "far")))
		return w.subscribeToNew(t, proxy.Get, a.name, "ns")
	}
	flooded, other := subscribe(flood), subscribe(calm)
	await(t, patience, func() error { // the watch has begun
		if n := flood.requested("endpointslices"); n < 3 || !flooded.Snapshot().Get.Has(address(before)) {
			return fmt.Errorf("%d requests for the slices of the flood", n)
		}
		return nil
	})

	began := time.Now()
	close(begin)
	must(t, flooded.Until(t.Context(), patience, func() error {
		if now := flooded.Snapshot(); !now.Get.Has(address(waits)) {
			return fmt.Errorf("the first %d events have not been handled: %v (%v)", floodBurst, now.Get.Addrs(), now.Err)
		}
		return nil
	}))
	for i := range 10 {
		changed := fmt.Sprintf("10.2.0.%d", i+1)
		must(t, calm.api.Put(object.Slice("ns", "far", "one", object.Endpoint(changed))))
		must(t, other.Until(t.Context(), time.Minute, func() error {
			if now := other.Snapshot(); !now.Get.Has(address(changed)) {
				return fmt.Errorf("change %d has not arrived: %v (%v)", i, now.Get.Addrs(), now.Err)
			}
			return nil
		}))
		if flooded.Snapshot().Get.Has(address(last)) {
			t.Errorf("change %d arrived after all of the flood, %v after that began", i, time.Since(began))
		}
	}
	t.Logf("the changes have arrived %v after the flood began", time.Since(began))
	must(t, flooded.Until(t.Context(), time.Minute, func() error {
		if now := flooded.Snapshot(); !now.Get.Has(address(last)) {
			return fmt.Errorf("the flood has not ended: %v (%v)", now.Get.Addrs(), now.Err)
		}
		return nil
	}))
	took := time.Since(began)
	t.Logf("%d events, sent within %v, were handled within %v", floodEvents, <-sent, took)
	if least := (floodEvents - floodBurst) * time.Second / floodRate; took < least {
		t.Errorf("they should have waited at the server, for %v at least", least)
	}
}
