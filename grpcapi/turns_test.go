package grpcapi

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"isthmus/federation"
)

// TestTurns: while no turn is free streams send nothing, and can end; after that they send
// the newest state alone.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, key := newWorld(t, Options{Pace: -1}), addrKey("10.0.0.1:80")
		opaque := func(is bool) *federation.Profile {
			return endpointProfile(&federation.Endpoint{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Opaque: is})
		}
		w.offer("", pods("10.0.0.1:80")...)
		w.profiles.put(key, opaque(false))
		get, profile, leaves := w.get(webAddr, ""), w.getProfile("10.0.0.1:80", ""), w.get(webAddr, "")
		get.sees(t, "add 10.0.0.1:80")
		profile.sees(t, "endpoint 10.0.0.1:80")
		leaves.sees(t, "add 10.0.0.1:80")

		for range cap(w.server.turns) {
			w.server.turns <- struct{}{}
		}
		w.profiles.put(key, opaque(true))
		for _, addr := range []string{"10.0.0.2:80", "10.0.0.3:80"} {
			w.offer("", pods("10.0.0.1:80", addr)...)
			get.sees(t, "")
			profile.sees(t, "")
			leaves.sees(t, "")
		}
		leaves.hangUp()

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

// TestSlowProxiesHoldNoTurn: however many proxies take no message, others get theirs.
func TestSlowProxiesHoldNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Pace: -1})
		w.offer("", pods("10.0.0.1:80")...)
		for range 2 * cap(w.server.turns) {
			c := w.get(webAddr, "", gated)
			defer c.hangUp()
			c.gate <- struct{}{}
		}
		quick := w.get(webAddr, "")
		defer quick.hangUp()
		quick.sees(t, "add 10.0.0.1:80")
		w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
		quick.sees(t, "add 10.0.0.2:80")
		w.offer("", pods("10.0.0.1:80")...)
		quick.sees(t, "remove 10.0.0.2:80")
	})
}
