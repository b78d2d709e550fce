package grpcapi

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// sees fails unless these are the caller's messages since the last call.
func (c *caller) sees(t *testing.T, want string) []received {
	t.Helper()
	synctest.Wait()
	m := c.take()
	if got := lines(m); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	return m
}

// fails fails unless the stream has ended with that code, and a message that
// contains the text.
func (c *caller) fails(t *testing.T, code codes.Code, text string) {
	t.Helper()
	synctest.Wait()
	select {
	case <-c.done:
	default:
		t.Fatalf("still open, want %v", code)
	}
	if s := status.Convert(c.err); s.Code() != code || !strings.Contains(s.Message(), text) {
		t.Fatalf("ended with %v, want %v %q", c.err, code, text)
	}
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: 50 * time.Millisecond})
		w.offer("", pods("10.0.0.1:80")...)
		start := time.Now()
		c := w.get(webAddr, "")
		defer c.hangUp()
		time.Sleep(time.Second)
		w.offer("", pods("10.0.0.2:80")...) // a lone change goes out at once
		synctest.Wait()
		for i := range 4 { // what follows waits, and is one step
			time.Sleep(10 * time.Millisecond)
			w.offer("", pods("10.0.0.2:80", []string{"10.0.0.3:80", "10.0.0.4:80"}[i%2])...)
		}
		time.Sleep(time.Second)
		w.offer("", pods("10.0.0.5:80")...)
		m := c.sees(t, "add 10.0.0.1:80; add 10.0.0.2:80; remove 10.0.0.1:80; add 10.0.0.4:80; add 10.0.0.5:80; remove 10.0.0.2:80 10.0.0.4:80")
		for i, want := range []time.Duration{0, 1000, 1000, 1050, 2040, 2040} {
			if got := m[i].at.Sub(start); got != want*time.Millisecond {
				t.Errorf("message %d after %v, want %v", i, got, want*time.Millisecond)
			}
		}
	})
}

// TestConflation: a slow proxy gets one step for all that it missed, and what comes and
// goes meanwhile is never sent.
func TestConflation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		c := w.get(webAddr, "", gated)
		defer c.hangUp()
		synctest.Wait()
		w.offer("", pods("10.0.0.9:80")...)
		w.offer("", pods("10.0.0.2:80", "10.0.0.3:80")...)
		close(c.gate)
		c.sees(t, "add 10.0.0.1:80 10.0.0.2:80; add 10.0.0.3:80; remove 10.0.0.1:80")
	})
}

func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stalled []string
		w := newWorld(t, Options{Pace: -1, Stall: time.Minute, Stalled: func(destination string) { stalled = append(stalled, destination) }})
		w.offer("", pods("10.0.0.1:80")...)
		c := w.get(webAddr, "", gated)
		defer c.hangUp()
		time.Sleep(59 * time.Second)
		c.gate <- struct{}{}
		c.sees(t, "add 10.0.0.1:80")
		time.Sleep(time.Hour) // with nothing to send, nothing stalls
		c.sees(t, "")
		w.offer("", pods("10.0.0.2:80")...)
		time.Sleep(59 * time.Second)
		c.gate <- struct{}{} // the add; the remove gets a minute of its own
		time.Sleep(time.Minute - time.Nanosecond)
		c.sees(t, "add 10.0.0.2:80")
		if n := w.server.metrics.getOverflow.count(webAddr); n != 0 {
			t.Errorf("%d before any stall", n)
		}
		time.Sleep(time.Nanosecond)
		c.fails(t, codes.Unavailable, "taken no update")
		if c.status.Code() != codes.Unavailable {
			t.Errorf("the transport was given %v", c.status)
		}
		if n := w.server.metrics.getOverflow.count(webAddr); n != 1 || !slices.Equal(stalled, []string{webAddr}) {
			t.Errorf("counted %v times, reported as %q", n, stalled)
		}
	})
}
