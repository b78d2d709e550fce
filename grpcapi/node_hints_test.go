package grpcapi

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/status"

	"isthmus/federation"
	"isthmus/grpcapi/wire"
)

var hintNodes = flag.Int("hint-nodes", 40, "number of nodes of TestNodeHintsCost")

// hinted returns a Pod's endpoint with the hints that Kubernetes writes for trafficDistribution:
// PreferSameNode.
func hinted(addr, zone, node string) *federation.Endpoint {
	e := pod(addr)
	e.Zone, e.Node = zone, node
	e.Hints = &federation.Hints{ForZones: []string{zone}, ForNodes: []string{node}}
	return e
}

// TestNodeHints checks that a stream has the node in its key only while an endpoint is hinted to
// its node. When the key changes, the proxy gets the difference, and always has an endpoint.
//
// Behaviours: PR-22.
func TestNodeHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		w.define(false, federation.Local)
		w.nodes.move("n1", "a")
		w.nodes.move("n2", "a")
		w.nodes.move("n3", "b")
		one, other := hinted("10.0.0.1:80", "a", "n1"), hinted("10.0.0.2:80", "a", "n9")
		far := hinted("10.0.0.3:80", "b", "n3")
		views := func(open int) {
			t.Helper()
			if all, idle, _ := w.server.getViews.count(); all-idle != open {
				t.Errorf("%d views are open, want %d", all-idle, open)
			}
		}
		w.offer(federation.Local, one, other, far)
		c, same, zone := w.get(webAddr, "n1"), w.get(webAddr, "n1"), w.get(webAddr, "n2")
		defer c.hangUp()
		defer same.hangUp()
		defer zone.hangUp()
		c.sees(t, "add 10.0.0.1:80")
		same.sees(t, "add 10.0.0.1:80")
		zone.sees(t, "add 10.0.0.1:80 10.0.0.2:80")
		views(2)

		w.nodes.move("n4", "b")
		late := w.get(webAddr, "n4")
		late.sees(t, "add 10.0.0.3:80")
		moved := hinted("10.0.0.2:80", "a", "n4")
		w.offer(federation.Local, one, moved, far) // the endpoints for its zone do not change
		late.sees(t, "add 10.0.0.2:80; remove 10.0.0.3:80")
		w.offer(federation.Local, one, other, far)
		late.sees(t, "add 10.0.0.3:80; remove 10.0.0.2:80")
		late.hangUp()
		zone.take()

		w.offer(federation.Local, other, far) // the node has no endpoint any more
		c.sees(t, "add 10.0.0.2:80; remove 10.0.0.1:80")
		zone.sees(t, "remove 10.0.0.1:80")
		views(1)

		again := hinted("10.0.0.4:80", "a", "n1")
		w.offer(federation.Local, other, far, again)
		c.sees(t, "add 10.0.0.4:80; remove 10.0.0.2:80")
		zone.sees(t, "add 10.0.0.4:80")
		views(2)

		w.offer(federation.Local, other, again) // a change on another node in another zone
		c.sees(t, "")
		zone.sees(t, "")

		w.offer(federation.Local, other, again, pod("10.0.0.5:80")) // the new endpoint has no hints
		c.sees(t, "add 10.0.0.2:80 10.0.0.5:80")
		zone.sees(t, "add 10.0.0.5:80")
		views(1)

		w.offer(federation.Local, other, again)
		c.sees(t, "remove 10.0.0.2:80 10.0.0.5:80")
		zone.sees(t, "remove 10.0.0.5:80")

		w.nodes.move("n1", "b") // no endpoint is hinted to zone b, but one is hinted to the node
		c.sees(t, "add 10.0.0.4:80")
		w.define(true, federation.Local, "east")
		c.sees(t, "")
		w.offer("east", pod("10.1.0.1:80"))
		c.sees(t, "add 10.0.0.2:80 10.1.0.1:80")
		w.offer("east")
		c.sees(t, "remove 10.0.0.2:80 10.1.0.1:80")
	})
}

// hintedFleet is a Service with endpoints on some nodes of a cluster, and a stream from each node.
type hintedFleet struct {
	*world
	endpoints []*federation.Endpoint
	slices    []*federation.Slice
	next      uint32 // the last used address
	bytes     atomic.Int64
}

const (
	hintZones = 3
	perSlice  = 100
)

// hintSink counts the bytes sent on one stream.
type hintSink struct{ f *hintedFleet }

func (s hintSink) SendMsg(m any) error {
	s.f.bytes.Add(int64(m.(*wire.Frame).Size()))
	return nil
}

func (s hintSink) WriteStatus(*status.Status) error { return nil }

// endpoint returns a new endpoint on the node with that number.
func (f *hintedFleet) endpoint(node int, forNodes bool) *federation.Endpoint {
	f.next++
	addr := netip.AddrFrom4([4]byte{10, byte(f.next >> 16), byte(f.next >> 8), byte(f.next)})
	e := hinted(netip.AddrPortFrom(addr, 80).String(), zoneOf(node), nodeName(node))
	if !forNodes {
		e.Hints.ForNodes = nil
	}
	return e
}

func nodeName(i int) string  { return fmt.Sprint("node-", i) }
func zoneOf(node int) string { return fmt.Sprint("zone-", node%hintZones) }

// set replaces the endpoint at a place, and publishes its slice. If e is nil, set removes the
// endpoint.
func (f *hintedFleet) set(place int, e *federation.Endpoint) {
	f.endpoints[place] = e
	f.fill(place / perSlice)
	f.share(federation.Local, federation.Share{State: federation.Present, Slices: slices.Clone(f.slices)})
}

func (f *hintedFleet) fill(slice int) {
	l := &federation.Slice{Name: fmt.Sprint(slice)}
	for _, e := range f.endpoints[slice*perSlice : min((slice+1)*perSlice, len(f.endpoints))] {
		if e != nil {
			l.Endpoints = append(l.Endpoints, e)
		}
	}
	slices.SortFunc(l.Endpoints, func(a, b *federation.Endpoint) int { return a.Addr.Compare(b.Addr) })
	f.slices[slice] = l
}

// hintCost is the work of the server, and the number of open views afterwards.
type hintCost struct {
	cpu   time.Duration
	bytes int64
	views int
}

func (c hintCost) String() string {
	return fmt.Sprintf("%v CPU, %.1f MB, %d views", c.cpu.Round(time.Millisecond), float64(c.bytes)/1e6, c.views)
}

// cost returns the cost of do until all streams are idle again.
func (f *hintedFleet) cost(do func()) hintCost {
	before, bytes := cpuTime(), f.bytes.Load()
	do()
	synctest.Wait()
	all, idle, _ := f.server.getViews.count()
	return hintCost{cpuTime() - before, f.bytes.Load() - bytes, all - idle}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestNodeHintsCost compares the costs of node hints and zone hints, without gRPC. Each node has
// one stream. All Pods are replaced one after the other, and then one endpoint briefly has no hint.
// The test checks the number of views. If Pods run on a quarter of the nodes, replacing them must
// send no more bytes than with zone hints.
func TestNodeHintsCost(t *testing.T) {
	nodes := *hintNodes
	for _, endpoints := range []int{nodes / 4, nodes} {
		var rolled [2]hintCost
		for i, forNodes := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f := &hintedFleet{world: newWorld(t, Options{Pace: -1, Log: zap.NewNop()})}
				f.define(false, federation.Local)
				f.endpoints = make([]*federation.Endpoint, endpoints)
				f.slices = make([]*federation.Slice, (endpoints+perSlice-1)/perSlice)
				for k := range f.endpoints {
					f.endpoints[k] = f.endpoint(k, forNodes)
				}
				for k := range f.slices {
					f.fill(k)
				}
				f.set(0, f.endpoints[0])
				ctx, stop := context.WithCancel(t.Context())
				var streams sync.WaitGroup
				begun := f.cost(func() {
					for k := range nodes {
						f.nodes.move(nodeName(k), zoneOf(k))
						streams.Go(func() {
							to := target{service: web, port: 80}
							st := newGetStream(f.server, to, token{Node: nodeName(k)}, hintSink{f}, hintSink{f})
							_ = serve(ctx, st)
						})
					}
				})
				most := 0
				rolled[i] = f.cost(func() {
					for k := range f.endpoints {
						most = max(most, f.cost(func() { f.set(k, nil) }).views)
						most = max(most, f.cost(func() { f.set(k, f.endpoint(k, forNodes)) }).views)
					}
				})
				last := f.endpoints[0]
				bare := *last
				bare.Hints = nil
				without := f.cost(func() { f.set(0, &bare) })
				with := f.cost(func() { f.set(0, last) })
				t.Logf("%d nodes, %d endpoints, node hints %t: begin %v; roll %v, at most %d views",
					nodes, endpoints, forNodes, begun, rolled[i], most)
				t.Logf("one endpoint without hint: %v; with hint: %v", without, with)
				stop()
				streams.Wait()
				want := hintZones
				if forNodes {
					want = endpoints + min(hintZones, nodes-endpoints)
				}
				if begun.views != want || with.views != want || most > want || without.views != hintZones {
					t.Errorf("%d, %d, at most %d and %d views, want %d",
						begun.views, with.views, most, without.views, want)
				}
			})
		}
		if endpoints < nodes && rolled[1].bytes > rolled[0].bytes {
			t.Errorf("streams got %d bytes with node hints, and %d with zone hints",
				rolled[1].bytes, rolled[0].bytes)
		}
	}
}
