package grpcapi

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"isthmus/federation"
)

func TestGetFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		given func(*world)
		code  codes.Code
		want  string // status message, or the first messages if the code is OK
		after time.Duration
	}{
		"undefined": {func(w *world) { w.table.Define(web, nil) }, codes.NotFound, "Service web.shop not found", 0},
		"no remote service": {func(w *world) { w.table.Define(web, &federation.Definition{}) },
			codes.FailedPrecondition, "Remote discovery service missing remote service name " + webAddr, 0},
		"not linked": {
			func(w *world) { w.link("east", federation.Unlinked) },
			codes.NotFound,
			"Remote cluster not found: east",
			0,
		},
		"external name": {
			func(w *world) { w.share("east", federation.Share{State: federation.ExternalName}) },
			codes.InvalidArgument,
			"Invalid authority: " + webAddr,
			0,
		},
		"unreachable": {func(w *world) { w.link("east", federation.Unreachable) }, codes.Unavailable, "", 0},
		"pending": {
			func(w *world) { w.link("east", federation.Pending) },
			codes.Unavailable,
			"",
			2 * time.Second,
		},
		"remote missing": {func(w *world) { w.share("east", federation.Share{}) },
			codes.OK, "no_endpoints(false)", 0},
		"empty": {func(w *world) { w.offer("east") }, codes.OK, "no_endpoints(true)", 0},
		"federated, one pending, empty else": {func(w *world) {
			w.define(true, "", "east")
			w.link("east", federation.Pending)
		}, codes.Unavailable, "", 2 * time.Second},
		"federated, one pending": {func(w *world) {
			w.define(true, "", "east")
			w.link("east", federation.Pending)
			w.offer("", pods("10.0.0.1:80")...)
		}, codes.OK, "add 10.0.0.1:80", 2 * time.Second},
		"federated, one unreachable": {func(w *world) {
			w.define(true, "", "east")
			w.link("east", federation.Unreachable)
			w.offer("", pods("10.0.0.1:80")...)
		}, codes.OK, "add 10.0.0.1:80", 0},
		"federated, one not linked": {func(w *world) {
			w.define(true, "", "east")
			w.link("east", federation.Unlinked)
		}, codes.OK, "no_endpoints(true)", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{})
				w.define(false, "east")
				tc.given(w)
				start := time.Now()
				c := w.get(webAddr, "")
				defer c.hangUp()
				if tc.after > 0 {
					synctest.Wait()
					time.Sleep(tc.after - time.Nanosecond)
					c.sees(t, "")
				}
				if tc.code != codes.OK {
					<-c.done
					c.fails(t, tc.code, tc.want)
				} else {
					time.Sleep(tc.after + time.Second)
					if at := c.sees(t, tc.want)[0].at.Sub(start); at != tc.after {
						t.Errorf("first message after %v, want %v", at, tc.after)
					}
				}
				if got := time.Since(start); tc.code != codes.OK && got != tc.after {
					t.Errorf("ended after %v, want %v", got, tc.after)
				}
			})
		})
	}
}

// TestFirstFrameWaitsForPendingClusters checks that a stream gets one merged add when the last
// pending cluster is ready.
func TestFirstFrameWaitsForPendingClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.link("east", federation.Pending)
		w.link("north", federation.Pending)
		for c, a := range map[federation.ClusterName]string{
			"":      "10.0.0.1:80",
			"east":  "10.1.0.1:80",
			"north": "10.2.0.1:80",
		} {
			w.offer(c, pods(a)...)
		}
		start := time.Now()
		c := w.get(webAddr, "")
		defer c.hangUp()
		time.Sleep(500 * time.Millisecond)
		w.link("east", federation.Ready)
		c.sees(t, "")
		time.Sleep(700 * time.Millisecond)
		w.link("north", federation.Ready)
		m := c.sees(t, "add 10.0.0.1:80 10.1.0.1:80 10.2.0.1:80")
		if at := m[0].at.Sub(start); at != 1200*time.Millisecond {
			t.Errorf("first message after %v", at)
		}
	})
}

func TestFirstFrameEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.link("east", federation.Pending)
		c := w.get(webAddr, "")
		synctest.Wait()
		c.cancel()
		c.fails(t, codes.Canceled, "")
	})
}

// TestEmptyWhilePending checks that a set that becomes empty while a cluster is pending is held
// back. An empty set is held back for as long as a first message.
func TestEmptyWhilePending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.define(true, "east", "north")
		w.offer("east", pods("10.1.0.1:80")...)
		w.link("north", federation.Ready)
		c := w.get(webAddr, "")
		defer c.hangUp()
		c.sees(t, "add 10.1.0.1:80")
		time.Sleep(time.Minute)

		w.link("north", federation.Pending)
		w.offer("east")
		time.Sleep(time.Second)
		w.offer("east", pods("10.1.0.2:80")...) // in time: the proxy always has endpoints
		c.sees(t, "add 10.1.0.2:80; remove 10.1.0.1:80")
		time.Sleep(time.Minute)
		c.sees(t, "")

		start := time.Now()
		w.offer("east")
		time.Sleep(2*time.Second - 1)
		c.sees(t, "")
		time.Sleep(time.Nanosecond)
		if m := c.sees(t, "no_endpoints(true)"); m[0].at.Sub(start) != 2*time.Second {
			t.Errorf("sent after %v", m[0].at.Sub(start))
		}
		time.Sleep(time.Minute)
		c.sees(t, "")
		w.offer("east", pods("10.1.0.1:80")...)
		c.sees(t, "add 10.1.0.1:80")
	})
}

// TestHeldBackDespiteChange checks that a held back set is sent on time even if another change
// wakes the stream.
func TestHeldBackDespiteChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.define(true, "east", "north")
		w.offer("east", pods("10.1.0.1:80")...)
		w.nodes.move("n1", "a")
		c := w.get(webAddr, "n1")
		defer c.hangUp()
		c.sees(t, "add 10.1.0.1:80")
		time.Sleep(time.Minute)
		w.link("north", federation.Pending)
		w.offer("east")
		time.Sleep(time.Second)
		w.nodes.move("n1", "b")
		time.Sleep(time.Second - 1)
		c.sees(t, "")
		time.Sleep(time.Nanosecond)
		c.sees(t, "no_endpoints(true)")
	})
}
