package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/federation"
)

// TestTicks: endpoints leave when their time is over, also if that time has come closer or
// has gone while it was waited for; and the loop ends with its context.
func TestTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, web := federation.NewTable(federation.Options{}), federation.ServiceID{Namespace: "shop", Name: "web"}
		local := func(addrs ...string) {
			table.Link(federation.Local, federation.Ready, newOffers(federation.Local, "web", addrs...))
		}
		returnAfter := func(d time.Duration) {
			p := &federation.Preference{Tiers: []federation.Tier{{{Kind: federation.LocalCluster}}, {{Kind: federation.AnyCluster}}}, ReturnAfter: d}
			table.Define(web, &federation.Definition{Federated: true, Preference: p, Members: []federation.Member{{Service: web}, {Cluster: "east", Service: web}}})
		}
		table.Link("east", federation.Ready, newOffers("east", "web", "10.1.0.1:80"))
		local()
		returnAfter(time.Hour)
		w := table.Watch(federation.Key{Service: web, Port: 80})
		defer w.Close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- runTicks(ctx, table) }()
		expect := func(after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if set, _ := w.Get(); len(set.Endpoints) != want {
				t.Errorf("%d endpoints, want %d", len(set.Endpoints), want)
			}
		}
		local("10.0.0.1:80")
		expect(59*time.Minute, 2)
		local()
		expect(time.Hour, 1) // nothing is due any more
		local("10.0.0.1:80")
		expect(time.Minute, 2)
		returnAfter(2 * time.Minute)
		expect(time.Minute-1, 2)
		expect(1, 1)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
