package grpcapi

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/federation"
)

func webAt(port int) string { return fmt.Sprintf("web.shop.svc.cluster.local:%d", port) }

// openUndeclared opens a stream of web for each of count ports from first on. web has one endpoint.
func (w *world) openUndeclared(t *testing.T, first, count int) (all []*caller) {
	t.Helper()
	for port := first; port < first+count; port++ {
		c := w.get(webAt(port), "")
		c.sees(t, fmt.Sprintf("add 10.0.0.1:%d", port))
		all = append(all, c)
	}
	return all
}

// TestUndeclaredPortsAreBounded checks that a Service has at most 64 undeclared ports with views.
// Streams of further undeclared ports are refused until a port's last stream ends. Idle views do
// not count.
func TestUndeclaredPortsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		w.declare("", 80)
		w.offer("", pods("10.0.0.1:80")...)
		all := w.openUndeclared(t, 1000, federation.MaxUndeclaredPorts)
		w.get(webAt(2000), "").fails(t, codes.ResourceExhausted, "64 undeclared ports of Service web.shop")
		w.get("made-up."+webAt(2000), "").fails(t, codes.ResourceExhausted,
			"64 undeclared ports of Service web.shop")
		w.views(t, len(all), 0)
		if n := len(w.table.Watched()); n != len(all) {
			t.Errorf("%d ports are watched", n)
		}
		if _, err := w.server.Explain(
			t.Context(), Question{Authority: webAt(2000)},
		); status.Code(err) != codes.ResourceExhausted {
			t.Error(err)
		}

		w.nodes.move("n1", "a")
		shares, zoned, declared := w.get(webAt(1000), ""), w.get(webAt(1000), "n1"), w.get(webAddr, "")
		shares.sees(t, "add 10.0.0.1:1000")
		zoned.sees(t, "add 10.0.0.1:1000")
		declared.sees(t, "add 10.0.0.1:80")

		all[0].hangUp()
		shares.hangUp()
		w.get(webAt(2000), "").fails(t, codes.ResourceExhausted, "64 undeclared ports")
		zoned.hangUp()
		all = append(all, declared)
		all = append(all, w.openUndeclared(t, 2000, 1)...)
		for _, c := range all[1:] {
			c.hangUp()
		}
		w.views(t, 1, 1) // the view of the declared port
		for _, c := range w.openUndeclared(t, 3000, federation.MaxUndeclaredPorts) {
			c.hangUp()
		}
	})
}

// TestUndeclaredPortsByService checks that each Service has its own limit. A Service that does not
// exist has none.
func TestUndeclaredPortsByService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		w.declare("", 80)
		w.offer("", pods("10.0.0.1:80")...)
		all := w.openUndeclared(t, 1000, federation.MaxUndeclaredPorts)
		other := federation.ServiceID{Namespace: "shop", Name: "other"}
		w.table.Define(other, &federation.Definition{Members: []federation.Member{{Service: web}}})
		c := w.get(strings.Replace(webAt(2000), "web", "other", 1), "")
		c.sees(t, "add 10.0.0.1:2000")
		w.table.Define(web, nil)
		w.get(webAt(2000), "").fails(t, codes.NotFound, "")
		for _, c := range append(all, c) {
			c.hangUp()
		}
	})
}

// TestUndeclaredPortsWhilePending checks that ports count before it is known whether a member
// declares them. Otherwise a client could open any number before the member's cluster is ready.
func TestUndeclaredPortsWhilePending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		w.define(true, "north")
		w.link("north", federation.Pending)
		w.declare("north", 80, 1000)
		w.clusters["north"].put(web, federation.Share{
			State: federation.Present, Slices: []*federation.Slice{sliceOf("north", pods("10.0.0.1:80")...)},
		})
		var all []*caller
		for i := range federation.MaxUndeclaredPorts {
			all = append(all, w.get(webAt(1000+i), ""))
		}
		synctest.Wait()
		w.get(webAt(2000), "").fails(t, codes.ResourceExhausted, "64 undeclared ports")
		w.link("north", federation.Ready)
		all[0].sees(t, "add 10.0.0.1:80")
		for i, c := range all[1:] {
			c.sees(t, fmt.Sprintf("add 10.0.0.1:%d", 1001+i))
		}
		all = append(all, w.openUndeclared(t, 2000, 1)...) // replaces port 1000
		w.get(webAt(2001), "").fails(t, codes.ResourceExhausted, "64 undeclared ports")
		for _, c := range all {
			c.hangUp()
		}
	})
}

// TestIdleViewsWhilePending checks that a port does not count after its last stream, while a
// member's cluster is pending.
func TestIdleViewsWhilePending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, FirstFrame: time.Nanosecond})
		w.define(true, "", "north")
		w.link("north", federation.Pending)
		w.declare("", 80)
		w.offer("", pods("10.0.0.1:80")...)
		for _, first := range []int{1000, 2000} {
			var all []*caller
			for i := range federation.MaxUndeclaredPorts {
				all = append(all, w.get(webAt(first+i), ""))
			}
			time.Sleep(time.Nanosecond)
			for i, c := range all {
				c.sees(t, fmt.Sprintf("add 10.0.0.1:%d", first+i))
				c.hangUp()
			}
			w.views(t, 0, 0)
		}
	})
}

// TestRefusedViewsAreNotShared checks that a stream is served when a port is free. An earlier
// refused stream of the port does not matter, even if it is still open.
func TestRefusedViewsAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: -1})
		w.declare("", 80)
		w.offer("", pods("10.0.0.1:80")...)
		all := w.openUndeclared(t, 1000, federation.MaxUndeclaredPorts)
		refused := newGetStream(w.server, target{service: web, port: 2000}, token{}, nil, nil)
		refused.updateZone()
		all[0].hangUp()
		all = append(all[1:], w.openUndeclared(t, 2000, 1)...)
		refused.close()
		w.views(t, len(all), 0)
		for _, c := range all {
			c.hangUp()
		}
		w.views(t, 0, 0)
		if n := w.server.viewMemory.inUse(); n != 0 {
			t.Errorf("%d bytes are in use at the end", n)
		}
	})
}

// TestPortsCeaseToBeDeclared checks that open streams stay open when their ports become undeclared
// or their clients change zones. New ports are refused until fewer than 64 are left.
func TestPortsCeaseToBeDeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		w.define(false, "")
		w.declare("", 80, 1001)
		w.offer("", pods("10.0.0.1:80")...)
		all := w.openUndeclared(t, 2000, federation.MaxUndeclaredPorts)
		w.nodes.move("n1", "a")
		c, other := w.get(webAt(80), "n1"), w.get(webAt(1001), "")
		c.sees(t, "add 10.0.0.1:80")
		other.sees(t, "add 10.0.0.1:80")
		w.declare("", 1)
		c.sees(t, "")
		other.sees(t, "add 10.0.0.1:1001; remove 10.0.0.1:80")
		all[0].hangUp()
		all[1].hangUp()
		w.get(webAt(3000), "").fails(t, codes.ResourceExhausted, "64 undeclared ports")
		w.nodes.move("n1", "b")
		c.sees(t, "add 10.0.0.1:80")
		all[2].hangUp()
		all = append(all[3:], w.openUndeclared(t, 3000, 1)...)
		for _, c := range append(all, c, other) {
			if c.over() {
				t.Error("a served stream ended")
			}
			c.hangUp()
		}
		w.views(t, 0, 0)
	})
}

// TestUndeclaredPortsMetrics checks that undeclared ports share the series of port 0. A port that
// becomes declared gets its own series, and the updates of the others do not decrease.
func TestUndeclaredPortsMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCounted(t)
		w.define(false, "")
		w.declare("", 80)
		w.offer("", pods("10.0.0.1:80")...)
		all := w.openUndeclared(t, 1000, 3)
		of := func(port string, subscribers, updates int) []string {
			labels := " cluster=local namespace=shop port=" + port + " service=web "
			return []string{
				"endpoints_exists" + labels + "1", "endpoints_pods" + labels + "1",
				fmt.Sprint("endpoints_subscribers", labels, subscribers),
				fmt.Sprint("endpoints_updates", labels, updates),
			}
		}
		w.expect(t, "endpoints_", of("0", 3, 0)...)
		w.offer("", pods("10.0.0.2:80")...)
		w.expect(t, "endpoints_", of("0", 3, 3)...)
		all[0].hangUp()
		w.expect(t, "endpoints_", of("0", 2, 3)...)
		w.declare("", 80, 1001)
		var want []string
		undeclared, declared := of("0", 1, 4), of("1001", 1, 0) // the change counts for the previous port
		for i := range undeclared {
			want = append(want, undeclared[i], declared[i])
		}
		w.expect(t, "endpoints_", want...)
		w.declare("", 80)
		w.expect(t, "endpoints_", of("0", 2, 4)...)
		for _, c := range all[1:] {
			c.hangUp()
		}
		w.expect(t, "endpoints_")
	})
}

// TestPortBecomesDeclared checks that a stream follows its port when it becomes declared or
// undeclared.
func TestPortBecomesDeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: -1})
		w.declare("", 80)
		w.declare("east", 80)
		w.offer("", pods("10.0.0.1:80")...)
		w.offer("east", pods("10.1.0.1:80")...)
		c, other := w.get(webAt(1000), ""), w.get(webAt(1001), "")
		defer c.hangUp()
		defer other.hangUp()
		c.sees(t, "add 10.0.0.1:1000 10.1.0.1:1000")
		other.sees(t, "add 10.0.0.1:1001 10.1.0.1:1001")
		w.views(t, 2, 0)
		for range 3 {
			w.declare("east", 80, 1000)
			c.sees(t, "add 10.1.0.1:80; remove 10.1.0.1:1000")
			w.declare("east", 80)
			c.sees(t, "add 10.1.0.1:1000; remove 10.1.0.1:80")
			w.views(t, 2, 0)
		}
		other.sees(t, "")
		w.link("east", federation.Unlinked)
		c.sees(t, "remove 10.1.0.1:1000")
		w.table.Define(web, nil)
		c.sees(t, "no_endpoints(false)")
		w.define(true, "", "north")
		c.sees(t, "add 10.0.0.1:1000")
	})
}
