package grpcapi

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"isthmus/federation"
)

// TestRejectedProfileByHistory: streams of one view that have had other routes
// keep those, each kind as the same bytes.
func TestRejectedProfileByHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		open := func() *call {
			c := w.getProfile(webAddr, "")
			t.Cleanup(c.hangUp)
			return c
		}
		same := func(want string, calls ...*call) {
			t.Helper()
			frame := calls[0].sees(t, want)[0].frame
			for _, c := range calls[1:] {
				if c.sees(t, want)[0].frame != frame {
					t.Errorf("%q was encoded twice", want)
				}
			}
		}
		w.told.put(webKey, webProfile("a"))
		a, b := open(), open()
		same("web routes a", a, b)
		w.told.put(webKey, with(webProfile(), rejected))
		late, later := open(), open()
		same("web", late, later)
		a.sees(t, "")
		w.told.put(webKey, with(with(webProfile(), rejected), opaque))
		same("web routes a opaque", a, b)
		same("web opaque", late, later)
		a.hangUp()
		again := open() // the same proxy, which has forgotten
		again.sees(t, "web opaque")
		w.told.put(webKey, webProfile("c"))
		same("web routes c", b, late, later, again)
		w.profileViews(t, 1, 0)
	})
}

func TestIdleProfileViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Linger: 30 * time.Second})
		w.told.put(webKey, webProfile("a"))
		first := w.getProfile(webAddr, "")
		frame := first.sees(t, "web routes a")[0].frame
		first.hangUp()
		w.profileViews(t, 1, 1)
		time.Sleep(30*time.Second - time.Nanosecond)
		again := w.getProfile(webAddr, "")
		if got := again.sees(t, "web routes a")[0].frame; got != frame {
			t.Error("a warm view encoded its profile again")
		}
		time.Sleep(time.Minute) // in use: nothing expires
		w.profileViews(t, 1, 0)
		again.hangUp()
		w.told.put(webKey, webProfile("b")) // idle views follow
		third := w.getProfile(webAddr, "")
		third.sees(t, "web routes b")
		third.hangUp()
		time.Sleep(30*time.Second - time.Nanosecond)
		w.profileViews(t, 1, 1)
		time.Sleep(time.Nanosecond)
		w.profileViews(t, 0, 0)
	})
}

// TestIdleProfileViewsAreBounded in number, and in what their messages take.
func TestIdleProfileViewsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for name, x := range map[string]struct {
		bound  Options
		routes []string
		says   string
		kept   int
	}{
		"number":    {Options{Pace: -1, IdleViews: 3}, nil, "web", 3},
		"weight":    {Options{Pace: -1, IdleBytes: 50_000}, []string{long}, "web routes " + long, 2},
		"too heavy": {Options{Pace: -1, IdleBytes: 10_000}, []string{long}, "web routes " + long, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, x.bound)
				for p := 1; p <= 5; p++ {
					w.told.put(federation.ProfileKey{Service: web, Port: uint16(p)}, webProfile(x.routes...))
					c := w.getProfile(fmt.Sprintf("web.shop.svc.cluster.local:%d", p), "")
					c.sees(t, x.says)
					c.hangUp()
				}
				w.profileViews(t, x.kept, x.kept)
			})
		})
	}
}

// TestUnknownDestinationsLeaveNothing: whatever clients make up.
func TestUnknownDestinationsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.told.put(webKey, &federation.Profile{Reason: federation.NoPort})
		for i := range 50 {
			w.getProfile(fmt.Sprintf("x%d.shop.svc.cluster.local", i), "").fails(t, codes.NotFound, "")
			c := w.getProfile(fmt.Sprintf("10.0.0.%d:80", i), "made-up")
			c.sees(t, fmt.Sprintf("endpoint 10.0.0.%d:80", i))
			c.hangUp()
			c = w.getProfile(webAddr, "")
			c.sees(t, "nothing")
			c.hangUp()
		}
		w.profileViews(t, 0, 0)
	})
}
