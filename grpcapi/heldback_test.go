package grpcapi

import (
	"testing"
	"testing/synctest"
	"time"

	"isthmus/federation"
)

// TestEmptyWhilePending: when a set becomes empty while a cluster is pending, an open
// stream waits for that cluster as long as a first message would, and no longer.
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

// TestHeldBackDespiteChange: when something else wakes the stream meanwhile, here its client's
// zone, an empty set is still sent once it is due.
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
