package grpcapi

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"isthmus/federation"
)

// over reports whether the call has ended.
func (c *caller) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func count(calls []*caller) (ended int) {
	for _, c := range calls {
		if c.over() {
			ended++
		}
	}
	return ended
}

// TestDrain checks that open streams end at random times. New streams are served and stay open
// until Finish.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Drain: 10 * time.Second})
		w.offer("", pods("10.0.0.1:80")...)
		var moved []*caller
		for range 100 {
			moved = append(moved, w.get(webAddr, ""))
		}
		stuck := w.get(webAddr, "", gated)
		stuck.gate <- struct{}{}
		moved = append(moved, stuck) // blocks in its next send
		synctest.Wait()
		start := time.Now()
		took := make(chan time.Duration, 1)
		go func() { w.server.Drain(t.Context()); took <- time.Since(start) }()
		synctest.Wait()
		late := []*caller{w.get(webAddr, "")}
		time.Sleep(5 * time.Second)
		late = append(late, w.get(webAddr, ""))
		synctest.Wait()
		half := count(moved)
		if half < 20 || half > 80 {
			t.Errorf("%d of 101 streams ended in half of the time", half)
		}
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...) // the remaining streams are still served
		synctest.Wait()
		for _, c := range moved[:100] {
			if n := len(c.take()); !c.over() && n != 2 {
				t.Errorf("%d messages, want 2", n)
			}
		}
		if d := <-took; d > 10*time.Second || d < 5*time.Second {
			t.Errorf("the drain took %v", d)
		}
		for _, c := range moved {
			c.fails(t, codes.Unavailable, "shutting down")
		}
		time.Sleep(time.Minute)
		late = append(late, w.get(webAddr, ""))
		synctest.Wait()
		if n := count(late); n != 0 || w.server.Streams() != 3 {
			t.Errorf("%d of the late streams ended, and %d streams are open", n, w.server.Streams())
		}
		for i, messages := range []int{2, 2, 1} {
			if n := len(late[i].take()); n != messages {
				t.Errorf("late stream %d was sent %d messages, want %d", i, n, messages)
			}
		}
		before := time.Now()
		w.server.Finish()
		late = append(late, w.get(webAddr, ""))
		synctest.Wait()
		for _, c := range late {
			c.fails(t, codes.Unavailable, "shutting down")
		}
		if d := time.Since(before); d != 0 || w.server.Streams() != 0 {
			t.Errorf("%v after the end, %d streams are still open", d, w.server.Streams())
		}
	})
}

// TestDrainRefusesNobody checks that a stream that waits for a cluster during a drain gets its
// first message and stays open.
func TestDrainRefusesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		w.offer("", pods("10.0.0.1:80")...)
		w.link("east", federation.Pending)
		c := w.get(webAddr, "")
		synctest.Wait()
		w.server.Drain(t.Context())
		w.link("east", federation.Unreachable)
		c.sees(t, "add 10.0.0.1:80")
		if c.over() {
			t.Error("the stream ended")
		}
		w.server.Finish()
		c.fails(t, codes.Unavailable, "shutting down")
	})
}

// TestWaitUnused checks that WaitUnused returns at once if the server has long been unused.
// WaitUnused stops with its context, and a returning proxy restarts the wait.
func TestWaitUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Drain: 1000 * time.Hour})
		time.Sleep(time.Minute)
		start := time.Now()
		if !w.server.WaitUnused(t.Context(), time.Second) || time.Since(start) != 0 {
			t.Errorf("WaitUnused returned after %v", time.Since(start))
		}
		w.offer("", pods("10.0.0.1:80")...)
		one, two := w.get(webAddr, ""), w.get(webAddr, "")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if w.server.WaitUnused(ctx, time.Second) || time.Since(start) != 5*time.Second {
			t.Errorf("WaitUnused returned with an open stream, after %v", time.Since(start))
		}
		if w.server.Drain(ctx); time.Since(start) != 5*time.Second {
			t.Errorf("the drain ended after %v", time.Since(start))
		}
		start = time.Now()
		after := make(chan time.Duration, 1)
		go func() {
			if !w.server.WaitUnused(t.Context(), time.Second) {
				t.Error("WaitUnused returned false")
			}
			after <- time.Since(start)
		}()
		time.Sleep(3 * time.Second)
		one.hangUp()
		time.Sleep(2 * time.Second)
		two.hangUp()
		time.Sleep(999 * time.Millisecond)
		back := w.get(webAddr, "")
		time.Sleep(time.Minute)
		back.hangUp()
		time.Sleep(500 * time.Millisecond)
		w.get(webAddr, "").hangUp()
		if got, want := <-after, 67499*time.Millisecond; got != want {
			t.Errorf("WaitUnused returned after %v, want %v", got, want)
		}
	})
}
