package grpcapi

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// connected makes callers use one connection, which begins now.
func connected() func(*caller) {
	info := &clientConnection{began: time.Now()}
	return func(c *caller) { c.ctx = peer.NewContext(c.ctx, &peer.Peer{AuthInfo: info}) }
}

const tooOld = "maximum age"

// TestConnectionAge: the streams of a connection end one by one around its age, also
// while they are sent updates, and those of younger connections stay.
func TestConnectionAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, ConnectionAge: 1000 * time.Second})
		w.offer("", pods("10.0.0.1:80")...)
		w.profiles.put(webKey, wiretest.WebProfile())
		var old []*caller
		conn := connected()
		for range 100 {
			old = append(old, w.get(webAddr, "", conn), w.getProfile(webAddr, "", conn))
		}
		time.Sleep(899 * time.Second)
		young := w.get(webAddr, "", connected())
		none := w.get(webAddr, "")
		synctest.Wait()
		if n := count(old); n != 0 {
			t.Errorf("%d streams have ended too early", n)
		}
		for i := range 101 { // a second later each time
			w.offer("", pods([]string{"10.0.0.1:80", "10.0.0.2:80"}[i%2])...)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := count(old); n < 50 || n > 150 {
			t.Errorf("%d of 200 streams have ended in half of the time", n)
		}
		time.Sleep(101 * time.Second)
		for _, c := range old {
			c.fails(t, codes.Unavailable, tooOld)
		}
		if young.over() || none.over() {
			t.Error("a stream of a younger connection has ended")
		}
		young.hangUp()
		none.hangUp()
	})
}

// TestConnectionAgeRefusesNobody: a stream without its first message is not ended, and
// one that is opened when the connection is old is open for a second.
func TestConnectionAgeRefusesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1, ConnectionAge: 100 * time.Second, FirstFrame: time.Hour})
		w.offer("", pods("10.0.0.1:80")...)
		w.link("east", federation.Pending)
		conn := connected()
		c := w.get(webAddr, "", conn)
		time.Sleep(200 * time.Second)
		c.sees(t, "")
		w.link("east", federation.Unreachable)
		c.sees(t, "add 10.0.0.1:80")
		late := w.get(webAddr, "", conn)
		late.sees(t, "add 10.0.0.1:80")
		time.Sleep(999 * time.Millisecond)
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		c.sees(t, "add 10.0.0.2:80")
		late.sees(t, "add 10.0.0.2:80")
		time.Sleep(time.Millisecond)
		c.fails(t, codes.Unavailable, tooOld)
		late.fails(t, codes.Unavailable, tooOld)
	})
}

// TestConnectionAgeDuringASend: the end waits for the message that is being sent, and a
// proxy that does not take it is still noticed.
func TestConnectionAgeDuringASend(t *testing.T) {
	for name, takes := range map[string]bool{tooOld: true, "has taken no update": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{Pace: -1, ConnectionAge: 100 * time.Second, Stall: time.Minute})
				w.offer("", pods("10.0.0.1:80")...)
				c := w.get(webAddr, "", connected(), gated)
				c.gate <- struct{}{}
				time.Sleep(80 * time.Second)
				w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
				time.Sleep(59 * time.Second)
				c.sees(t, "add 10.0.0.1:80")
				if c.over() {
					t.Fatal("the stream has ended during a send")
				}
				if takes {
					c.gate <- struct{}{}
					c.sees(t, "add 10.0.0.2:80")
				}
				time.Sleep(time.Second)
				c.fails(t, codes.Unavailable, name)
			})
		})
	}
}

// TestConnectionAgeNone: without a maximum age streams stay.
func TestConnectionAgeNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{ConnectionAge: -1})
		w.offer("", pods("10.0.0.1:80")...)
		c := w.get(webAddr, "", connected())
		defer c.hangUp()
		time.Sleep(1000 * time.Hour)
		c.sees(t, "add 10.0.0.1:80")
		if c.over() {
			t.Error("the stream has ended")
		}
	})
}
