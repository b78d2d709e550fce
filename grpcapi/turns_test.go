package grpcapi

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"isthmus/federation"
	"isthmus/grpcapi/internal/wiretest"
)

// addressProfile is the profile of an address.
func addressProfile(opaque bool) *federation.Profile {
	return endpointProfile(&federation.Endpoint{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Opaque: opaque})
}

// TestTurns: while no turn is free streams send nothing, and can end; after that they send
// only the newest state.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, key := newWorld(t, Options{Pace: -1}), addrKey("10.0.0.1:80")
		w.offer("", pods("10.0.0.1:80")...)
		w.profiles.put(key, addressProfile(false))
		get, profile, leaves := w.get(webAddr, ""), w.getProfile("10.0.0.1:80", ""), w.get(webAddr, "")
		defer get.hangUp()
		defer profile.hangUp()
		defer leaves.hangUp()
		get.sees(t, "add 10.0.0.1:80")
		profile.sees(t, "endpoint 10.0.0.1:80")
		leaves.sees(t, "add 10.0.0.1:80")

		for range cap(w.server.turns) {
			w.server.turns <- struct{}{}
		}
		w.profiles.put(key, addressProfile(true))
		for _, addr := range []string{"10.0.0.2:80", "10.0.0.3:80"} {
			w.offer("", pods("10.0.0.1:80", addr)...)
			get.sees(t, "")
			profile.sees(t, "")
			leaves.sees(t, "")
		}
		leaves.cancel()
		leaves.fails(t, codes.Canceled, "")

		<-w.server.turns
		get.sees(t, "add 10.0.0.3:80")
		profile.sees(t, "endpoint 10.0.0.1:80 opaque")
		get.hangUp()
		profile.hangUp()
		if n, want := len(w.server.turns), cap(w.server.turns)-1; n != want {
			t.Errorf("%d turns are taken, not %d", n, want)
		}
	})
}

// TestSlowProxiesHoldNoTurn: however many proxies take no further message, others get theirs.
func TestSlowProxiesHoldNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		w.offer("", pods("10.0.0.1:80")...)
		key := addrKey("10.0.0.1:80")
		w.profiles.put(key, addressProfile(false))
		for range 2 * cap(w.server.turns) {
			for _, c := range []*caller{w.get(webAddr, "", gated), w.getProfile("10.0.0.1:80", "", gated)} {
				defer c.hangUp()
				c.gate <- struct{}{}
			}
		}
		quick := w.get(webAddr, "")
		defer quick.hangUp()
		quick.sees(t, "add 10.0.0.1:80")
		w.profiles.put(key, addressProfile(true))
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		quick.sees(t, "add 10.0.0.2:80")
		w.offer("", pods("10.0.0.1:80")...)
		quick.sees(t, "remove 10.0.0.2:80")
	})
}

// TestPaceHoldsNoTurn: a stream that waits for its pace takes no turn before that is over.
func TestPaceHoldsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, key := newWorld(t, Options{Pace: time.Second}), addrKey("10.0.0.1:80")
		w.offer("", pods("10.0.0.1:80")...)
		w.profiles.put(key, addressProfile(false))
		for range 2 * cap(w.server.turns) {
			for _, c := range []*caller{w.get(webAddr, ""), w.getProfile("10.0.0.1:80", "")} {
				defer c.hangUp()
			}
		}
		synctest.Wait()
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		w.profiles.put(key, addressProfile(true))
		synctest.Wait()
		if n := len(w.server.turns); n != 0 {
			t.Errorf("%d turns are taken", n)
		}
	})
}

// TestPaceAfterTurn: the pace counts from when a stream has its turn, not from when it began
// to wait for one.
func TestPaceAfterTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: time.Second})
		w.offer("", pods("10.0.0.1:80")...)
		c := w.get(webAddr, "")
		defer c.hangUp()
		c.sees(t, "add 10.0.0.1:80")
		time.Sleep(time.Minute)
		for range cap(w.server.turns) {
			w.server.turns <- struct{}{}
		}
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		time.Sleep(time.Minute)
		<-w.server.turns
		c.sees(t, "add 10.0.0.2:80")
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80")...)
		time.Sleep(time.Second - time.Nanosecond)
		c.sees(t, "")
		time.Sleep(time.Nanosecond)
		c.sees(t, "add 10.0.0.3:80")
	})
}

// TestPanicEndsTurn: a stream that panics while it produces an update gives its turn back.
// These panic since they have no view.
func TestPanicEndsTurn(t *testing.T) {
	w := newWorld(t, Options{})
	get := w.server.newGet(target{}, token{}, nil, nil)
	profile := w.server.newProfile(federation.ProfileKey{}, nil, nil)
	for name, produce := range map[string]func(){
		"Get":        func() { get.produce() },
		"GetProfile": func() { profile.newest() },
	} {
		w.server.turns <- struct{}{}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			produce()
		}()
		if n := len(w.server.turns); n != 0 {
			t.Fatalf("%s: %d turns are taken", name, n)
		}
	}
}

// TestTurnLastsForProduction: a stream has its turn until its messages are encoded. Its view's
// lock, without which it can't look for them, makes it wait there.
func TestTurnLastsForProduction(t *testing.T) {
	w := newWorld(t, Options{Pace: -1})
	w.offer("", pods("10.0.0.1:80")...)
	c := w.get(webAddr, "")
	defer c.hangUp()
	wiretest.Until(t, "the first message", func() bool { return len(c.take()) == 1 })
	view := w.server.getViews.acquire(w.server.table.Key(web, 80, federation.Client{}))
	defer w.server.getViews.release(view)
	view.mu.Lock()
	unlock := sync.OnceFunc(view.mu.Unlock)
	defer unlock()
	w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
	wiretest.Until(t, "its turn", func() bool { return len(w.server.turns) == 1 })
	unlock()
	wiretest.Until(t, "the update", func() bool { return len(c.take()) == 1 })
	wiretest.Until(t, "no turn", func() bool { return len(w.server.turns) == 0 })
}
