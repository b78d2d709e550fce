package grpcapi

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

func webAt(port int) string { return fmt.Sprintf("web.shop.svc.cluster.local:%d", port) }

// TestUndeclaredPortsShareAView: streams of ports that no member declares have one view
// for all, and are sent what a view of their own would have.
func TestUndeclaredPortsShareAView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: -1})
		w.declare("", 80)
		w.declare("east", 80, 81)
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		declared := w.get(webAt(81), "")
		defer declared.hangUp()
		declared.sees(t, "add 10.0.0.1:81 10.0.0.2:81") // of the member that does not declare it
		var all []*caller
		for i := range 50 {
			all = append(all, w.get(webAt(1000+i), ""))
			defer all[i].hangUp()
		}
		all = append(all, w.get(webAt(oddPort), ""))
		defer all[50].hangUp()
		at := func(i int) int {
			if i == 50 {
				return oddPort
			}
			return 1000 + i
		}
		for i, c := range all {
			m := c.sees(t, fmt.Sprintf("add 10.0.0.1:%d 10.0.0.2:%[1]d", at(i)))
			if got := m[0].update.GetAdd().GetAddrs()[0].GetProtocolHint().GetOpaque() != nil; got != (i == 50) {
				t.Errorf("port %d: opaque is %v", at(i), got)
			}
		}
		w.views(t, 2, 0)
		if n := len(w.table.Watched()); n != 2 {
			t.Errorf("%d ports are watched", n)
		}
		w.offer("", pods("10.0.0.2:80", "10.0.0.3:80")...)
		for i, c := range all {
			c.sees(t, fmt.Sprintf("add 10.0.0.3:%d; remove 10.0.0.1:%[1]d", at(i)))
		}
		w.offer("")
		for _, c := range all {
			c.sees(t, "no_endpoints(true)")
		}
	})
}

// TestPortBecomesDeclared: a stream has the endpoints of a declared port as soon as a
// member declares it, and those of an undeclared one when none does any more.
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
		w.views(t, 1, 0)
		for range 3 {
			w.declare("east", 80, 1000)
			c.sees(t, "add 10.1.0.1:80; remove 10.1.0.1:1000")
			w.views(t, 2, 0)
			w.declare("east", 80)
			c.sees(t, "add 10.1.0.1:1000; remove 10.1.0.1:80")
			w.views(t, 1, 0)
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

// small is what a view of a Service with an endpoint takes.
const small = viewBytes + endpointBytes + 3*memberBytes

// TestBudget: over the budget, calls that need a view of their own are refused; those
// who are served stay so, whatever happens, and so are those who share a view. Memory
// that is free again is used again.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: -1, ViewBytes: 7*small + viewBytes})
		w.offer("", pods("10.0.0.1:80")...)
		var served []*caller
		for i := range 7 {
			served = append(served, w.get(webAt(1000+i), ""))
			served[i].sees(t, "add 10.0.0.1:80")
		}
		w.get(webAt(2000), "").fails(t, codes.ResourceExhausted, "memory")
		shares := w.get(webAt(1000), "")
		shares.sees(t, "add 10.0.0.1:80")
		w.nodes.move("n1", "a")
		served[0].hangUp()
		shares.hangUp()
		zoned := w.get(webAt(1000), "n1")
		zoned.sees(t, "add 10.0.0.1:80")
		w.get(webAt(2000), "").fails(t, codes.ResourceExhausted, "memory")
		w.nodes.move("n1", "b")
		time.Sleep(time.Minute) // it has to follow before the next change
		zoned.sees(t, "add 10.0.0.1:80")
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		time.Sleep(time.Minute)
		zoned.sees(t, "add 10.0.0.2:80")
		if got := value(w.server.refused); got != 2 {
			t.Errorf("%v calls counted", got)
		}
		for _, c := range append(served[1:], zoned) {
			if c.over() {
				t.Error("a stream that was served has ended")
			}
			c.hangUp()
		}
		if got := w.server.views.inUse(); got != 0 {
			t.Errorf("%d bytes are in use after all", got)
		}
	})
}

// TestIdleViewsMakeRoom: views that no stream uses any more, of either RPC, do not keep
// others from what they ask for, those that fit stay warm, and what is refused leaves
// nothing behind.
func TestIdleViewsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: time.Hour, ViewBytes: 40*small + 100})
		w.offer("", pods("10.0.0.1:80")...)
		w.profiles.put(webKey, wiretest.WebProfile())
		open := func(i int) *caller {
			c := w.get(webAt(1000+i), "")
			c.sees(t, "add 10.0.0.1:80")
			return c
		}
		profile := w.getProfile(webAddr, "")
		synctest.Wait()
		profile.hangUp()
		for i := range 500 {
			open(i).hangUp()
		}
		if all, idle, evicted := w.server.getViews.count(); idle < 10 || all != idle || evicted != uint64(500-idle) {
			t.Errorf("%d views are kept, %d of them idle", all, idle)
		}
		var served []*caller
		for i := range 40 {
			served = append(served, open(1000+i))
		}
		if _, idle, _ := w.server.profileViews.count(); idle != 0 {
			t.Error("an idle view of a profile is kept")
		}
		for i := range 10 {
			w.get(webAt(3000+i), "").fails(t, codes.ResourceExhausted, "memory")
		}
		w.views(t, len(served), 0)
		for _, c := range served {
			c.hangUp()
		}
		if got := value(w.server.refused); got != 10 {
			t.Errorf("%v calls counted", got)
		}
	})
}

// TestBudgetOfMembers: ports of a Service with many members take much memory, also while
// none of them serves.
func TestBudgetOfMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, ViewBytes: 1 << 20})
		d := &federation.Definition{Federated: true}
		for i := range 256 {
			d.Members = append(d.Members, federation.Member{Cluster: federation.ClusterName(fmt.Sprint("unlinked-", i)), Service: web})
		}
		w.table.Define(web, d)
		const most = 1 << 20 / (256 * memberBytes)
		for i := range most + 1 {
			c := w.get(webAt(1000+i), "")
			defer c.hangUp()
			if i == most {
				c.fails(t, codes.ResourceExhausted, "memory")
			} else {
				c.sees(t, "no_endpoints(true)")
			}
		}
	})
}
