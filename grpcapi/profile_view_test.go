package grpcapi

import (
	"fmt"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// TestRejectedProfileByHistory: while a ServiceProfile is rejected, streams of one view
// keep the routes that they have received; those with the same routes share the bytes.
func TestRejectedProfileByHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		open := func() *caller {
			c := w.getProfile(webAddr, "")
			t.Cleanup(c.hangUp)
			return c
		}
		same := func(want string, calls ...*caller) {
			t.Helper()
			frame := calls[0].sees(t, want)[0].frame
			for _, c := range calls[1:] {
				if c.sees(t, want)[0].frame != frame {
					t.Errorf("%q was encoded twice", want)
				}
			}
		}
		w.profiles.put(webKey, wiretest.WebProfile("a"))
		a, b := open(), open()
		same("web routes a", a, b)
		w.profiles.put(webKey, with(wiretest.WebProfile(), rejected))
		late, later := open(), open()
		same("web", late, later)
		a.sees(t, "")
		w.profiles.put(webKey, with(with(wiretest.WebProfile(), rejected), opaque))
		same("web routes a opaque", a, b)
		same("web opaque", late, later)
		a.hangUp()
		again := open() // the same proxy, reconnected: its history is gone
		again.sees(t, "web opaque")
		w.profiles.put(webKey, wiretest.WebProfile("c"))
		same("web routes c", b, late, later, again)
		w.profileViews(t, 1, 0)
	})
}

// TestMadeUpDestinations: views of destinations that do not exist are not kept. For
// those that exist, clients can make up namespaces and the ports of a Pod: such views
// are kept, within the bounds, of which TestIdleViewsAreBounded has the others.
func TestMadeUpDestinations(t *testing.T) {
	at := func(port int) string { return fmt.Sprintf("10.0.0.1:%d", port) }
	instance := federation.ProfileKey{Service: web, Instance: "web-0", Port: 80}
	for name, x := range map[string]struct {
		open func(w *world, i int) *caller
		want func(i int) string
		kept int
	}{
		"undeclared ports": {
			func(w *world, i int) *caller {
				w.profiles.put(federation.ProfileKey{Service: web, Port: uint16(1000 + i)}, &federation.Profile{Reason: federation.NoPort})
				return w.getProfile(fmt.Sprintf("web.shop.svc.cluster.local:%d", 1000+i), "")
			},
			func(int) string { return "nothing" }, 0,
		},
		"namespaces of a service's clients": {
			func(w *world, i int) *caller {
				w.profiles.put(federation.ProfileKey{Service: web, Port: 80, Namespace: fmt.Sprint("made-up", i)}, wiretest.WebProfile())
				return w.getProfile(webAddr, fmt.Sprint("made-up", i))
			},
			func(int) string { return "web" }, 3,
		},
		"a pod's ports": {
			func(w *world, i int) *caller {
				w.profiles.put(addrKey(at(1000+i)), endpointProfile(pod(at(1000+i))))
				return w.getProfile(at(1000+i), "")
			},
			func(i int) string { return "endpoint " + at(1000+i) }, 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{IdleViews: 3})
				w.profiles.put(instance, endpointProfile(pod(at(80))))
				for i := range 50 {
					w.getProfile(fmt.Sprintf("x%d.shop.svc.cluster.local", i), "").fails(t, codes.NotFound, "")
					c := x.open(w, i)
					c.sees(t, x.want(i))
					c.hangUp()
				}
				w.profileViews(t, x.kept, x.kept)
				if n := w.server.profileViews.weight; n != x.kept*viewBytes {
					t.Errorf("they take %d bytes", n)
				}
				for _, v := range w.server.profileViews.all {
					if len(v.variants) != 0 {
						t.Errorf("%d messages of an idle view", len(v.variants))
					}
				}
			})
		})
	}
}
