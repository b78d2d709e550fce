package grpcapi

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
	"isthmus/grpcapi/wire"
)

// TestStepOfLargeSet: the number of allocations depends on the size of the change, not
// on the size of the set.
func TestStepOfLargeSet(t *testing.T) {
	for _, changed := range []int{1, 100} {
		small, large := testing.AllocsPerRun(20, largeSet(t, 3, changed, 600)), testing.AllocsPerRun(20, largeSet(t, 3, changed, 6000))
		if large > small+3 {
			t.Errorf("%d endpoints change: %v allocations among 600, %v among 6,000", changed, small, large)
		}
	}
}

// largeSet acquires a view of n endpoints, and returns a function that changes some of
// them and encodes the step.
func largeSet(b testing.TB, clusters, changed, n int) (step func()) {
	w := newWorld(b, Options{Messages: wire.Options{H2Upgrade: true, ForceOpaqueTransport: true, MeshedHTTP2: wiretest.HTTP2Params()}, Log: zap.NewNop()})
	shares := map[federation.ClusterName][]*federation.Slice{}
	names := []federation.ClusterName{"", "east", "north"}[:clusters]
	w.define(true, names...)
	for s := range n / 100 {
		c := names[s%clusters]
		shares[c] = append(shares[c], sliceOf(c, hundred(clusters-s%clusters, s)...))
	}
	for c, list := range shares {
		w.share(c, federation.Share{State: federation.Present, Slices: list})
	}
	turns := [2][]*federation.Slice{shares[""], slices.Clone(shares[""])}
	middle := len(turns[1]) / 2
	turns[1][middle] = altered(turns[0][middle], changed)

	v := w.server.getViews.acquire(w.table.Key(web, 80, federation.Client{Node: "n1", Zone: "a"}))
	b.Cleanup(func() { w.server.getViews.release(v) })
	v.startWatch(w.table.Watch, w.server.budget, costOfSet)
	before, _ := v.get()
	if len(before.Endpoints) != n {
		b.Fatal(len(before.Endpoints))
	}
	turn := 0
	return func() {
		turn = 1 - turn
		w.clusters[""].put(web, federation.Share{State: federation.Present, Slices: turns[turn]})
		w.table.Changed("", web, time.Time{})
		now, _ := v.get()
		if len(v.messages(before, now, false)) != 1 {
			b.Fatal("not one message")
		}
		before = now
	}
}

// hundred are the endpoints of a slice. The local cluster's addresses are the
// highest, so that the choice by zone has to look at all others before.
func hundred(cluster, s int) []*federation.Endpoint {
	list := make([]*federation.Endpoint, 100)
	for i := range list {
		e := wiretest.Shop()
		e.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(10 + cluster), byte(s >> 8), byte(s), byte(i)}), 80)
		list[i] = e
	}
	return list
}

// altered is a slice without one endpoint or, if all are to change, with each
// described otherwise.
func altered(s *federation.Slice, changed int) *federation.Slice {
	if changed == 1 {
		return &federation.Slice{Endpoints: s.Endpoints[1:]}
	}
	other := &federation.Slice{}
	for _, e := range s.Endpoints {
		e := *e
		e.Opaque = !e.Opaque
		other.Endpoints = append(other.Endpoints, &e)
	}
	return other
}
