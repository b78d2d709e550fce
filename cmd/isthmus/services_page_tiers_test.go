package main

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// tiered is a table with one watched service that prefers the own cluster to east and
// north, and a clock.
type tiered struct {
	*federation.Table
	now time.Time
	web federation.ServiceID
}

func newTiered(t *testing.T, p federation.Preference, o federation.Options) *tiered {
	w := &tiered{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), web: federation.ServiceID{Namespace: "shop", Name: "web"}}
	o.Now = func() time.Time { return w.now }
	w.Table = federation.NewTable(o)
	if p.Tiers == nil {
		p.Tiers = []federation.Tier{{{Kind: federation.LocalCluster}}, {{Kind: federation.Named, Cluster: "east"}, {Kind: federation.Named, Cluster: "north"}}}
	}
	w.Define(w.web, &federation.Definition{Federated: true, Preference: &p, Members: []federation.Member{{Service: w.web}, {Cluster: "east", Service: w.web}}})
	w.local("10.0.0.1:80", "10.0.0.2:80")
	w.Link("east", federation.Ready, newOffers("east", "web", "10.1.0.1:80"))
	for _, zone := range []string{"a", ""} {
		t.Cleanup(w.Watch(federation.Key{Service: w.web, Port: 80, Client: federation.Client{Zone: zone}}).Close)
	}
	return w
}

// local links the own cluster with these endpoints.
func (w *tiered) local(addrs ...string) {
	w.Link(federation.Local, federation.Ready, newOffers(federation.Local, "web", addrs...))
}

// clients returns what the page shows of them.
func (w *tiered) clients() []adminapi.Clients {
	return newServicesPage(w.Table, nil, nil, nothing)[0].Clients
}

// TestTiersOnPage: the page shows the preference, each tier with its counts, why those in
// use are, and what a return waits for or when it happens.
func TestTiersOnPage(t *testing.T) {
	w := newTiered(t, federation.Preference{MinReady: federation.MinReady{Count: 2}, ReturnAfter: 10 * time.Second}, federation.Options{})
	start := w.now
	s := newServicesPage(w.Table, nil, nil, nothing)[0]
	if want := (&adminapi.Preference{Prefer: "local, east+north", MinReady: "2", ReturnAfter: "10s", ReturnOver: "0s"}); !reflect.DeepEqual(s.Preference, want) {
		t.Errorf("preference %+v, want %+v", s.Preference, want)
	}
	check := func(want adminapi.Clients) {
		t.Helper()
		want.Port = 80
		inA := want
		inA.Zone = "a"
		if got := w.clients(); !reflect.DeepEqual(got, []adminapi.Clients{want, inA}) {
			t.Errorf("clients\n %+v, want\n %+v, and the same in zone a", got, want)
		}
	}
	check(adminapi.Clients{Since: start, Why: "local: 2 ready, min-ready is 2",
		Tiers: []adminapi.Tier{{Tier: "local", InUse: true, Ready: 2, Sent: 2}, {Tier: "east+north", Ready: 1}}})

	w.now = w.now.Add(time.Minute)
	spilled := w.now
	w.local("10.0.0.1:80")
	check(adminapi.Clients{Since: spilled, Why: "local: 1 ready, min-ready is 2", WaitsFor: "local: 1 ready, min-ready is 2",
		Tiers: []adminapi.Tier{{Tier: "local", InUse: true, Ready: 1, Sent: 1}, {Tier: "east+north", InUse: true, Ready: 1, Sent: 1}}})

	w.now = w.now.Add(time.Minute)
	w.local("10.0.0.1:80", "10.0.0.2:80")
	next := w.now.Add(10 * time.Second)
	check(adminapi.Clients{Since: spilled, Why: "local: 1 ready, min-ready is 2", Next: &next,
		Tiers: []adminapi.Tier{{Tier: "local", InUse: true, Ready: 2, Sent: 2}, {Tier: "east+north", InUse: true, Ready: 1, Sent: 1}}})
}

// TestTiersOnPageAreBounded: clients that make up names of instances do not make the page
// grow without end.
func TestTiersOnPageAreBounded(t *testing.T) {
	w := newTiered(t, federation.Preference{}, federation.Options{})
	for i := range 500 {
		t.Cleanup(w.Watch(federation.Key{Service: w.web, Port: 80, Client: federation.Client{Instance: fmt.Sprint("no-such-", i)}}).Close)
	}
	s := newServicesPage(w.Table, nil, nil, nothing)[0]
	if len(s.Clients) != 100 || s.MoreClients != 402 || s.Clients[0].Instance != "" || s.Clients[1].Zone != "a" {
		t.Errorf("%d kinds of clients and %d more, the first are %+v", len(s.Clients), s.MoreClients, s.Clients[:2])
	}
}
