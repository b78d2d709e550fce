package grpcapi

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
)

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, Drain: 10 * time.Second})
		w.offer("", pods("10.0.0.1:80")...)
		var calls []*call
		for range 100 {
			calls = append(calls, w.get(webAddr, ""))
		}
		stuck := w.get(webAddr, "", gated) // blocked in its send
		synctest.Wait()
		if n := w.server.Streams(); n != 101 {
			t.Fatalf("%d streams", n)
		}
		start := time.Now()
		over := make(chan time.Duration, 1)
		go func() { w.server.Drain(t.Context()); over <- time.Since(start) }()
		synctest.Wait()
		late := w.get(webAddr, "")
		late.fails(t, codes.Unavailable, "shutting down")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		half := w.server.Streams()
		if half < 20 || half > 80 {
			t.Errorf("%d of 101 streams left after half the time", half)
		}
		for _, c := range calls { // those that are left are still served
			c.take()
		}
		w.offer("", pods("10.0.0.2:80")...)
		synctest.Wait()
		served := 0
		for _, c := range calls {
			served += len(c.take()) / 2
		}
		if served < half-1 {
			t.Errorf("%d streams served, %d are open", served, half)
		}
		if took := <-over; took > 10*time.Second || took < 5*time.Second {
			t.Errorf("drained within %v", took)
		}
		for _, c := range append(calls, stuck) {
			c.fails(t, codes.Unavailable, "shutting down")
		}
		if n := w.server.Streams(); n != 0 {
			t.Errorf("%d streams left", n)
		}
		w.server.Drain(t.Context()) // again: nothing to do
	})
}

func TestDrainGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Drain: time.Hour})
		c := w.get(webAddr, "")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		w.server.Drain(ctx)
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v", took)
		}
		c.hangUp()
	})
}

func TestDrainWithoutStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		start := time.Now()
		w.server.Drain(t.Context())
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}
