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

// TestBudgetOfGrowth: what a view takes follows its set, also beyond the budget: then
// newcomers are refused until it has become smaller.
func TestBudgetOfGrowth(t *testing.T) {
	for name, port := range map[string]int{"a declared port": 80, "an undeclared port": 1000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{Pace: -1, Linger: -1, ViewBytes: 10 * viewBytes})
				w.declare("", 80)
				offer := func(endpoints int) {
					t.Helper()
					var all []string
					for i := range endpoints {
						all = append(all, fmt.Sprintf("10.0.0.%d:80", i+1))
					}
					w.offer("", pods(all...)...)
					synctest.Wait()
				}
				offer(1)
				c := w.get(webAt(port), "")
				synctest.Wait()
				began := w.server.views.inUse()
				for _, endpoints := range []int{40, 1, 40, 2} { // messages of so few count with no stream
					offer(endpoints)
					if got, want := w.server.views.inUse(), began+int64(endpoints-1)*endpointBytes; got != want {
						t.Errorf("a view of %d endpoints takes %d bytes, want %d", endpoints, got, want)
					}
					other := w.get("made-up."+webAddr, "")
					if endpoints == 40 {
						other.fails(t, codes.ResourceExhausted, "memory")
					} else {
						other.sees(t, "no_endpoints(true)")
					}
					other.hangUp()
				}
				c.hangUp()
				if got := w.server.views.inUse(); got != 0 {
					t.Errorf("%d bytes are in use after all", got)
				}
			})
		})
	}
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
