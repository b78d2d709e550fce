package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"isthmus/federation"
)

// TestTierMetrics: the tiers in use by zone, and how often that has changed, of services
// with a preference only.
func TestTierMetrics(t *testing.T) {
	w := newTiered(t, federation.Preference{ReturnAfter: time.Minute}, federation.Options{})
	plain := federation.ServiceID{Namespace: "shop", Name: "plain"}
	w.Define(plain, &federation.Definition{Federated: true, Members: []federation.Member{{Service: w.web}, {Cluster: "east", Service: w.web}}})
	t.Cleanup(w.Watch(federation.Key{Service: plain, Port: 80}).Close)
	unwatched := federation.ServiceID{Namespace: "shop", Name: "unwatched"}
	w.Define(unwatched, w.Definitions()[w.web])
	// A cluster of last resort makes tiers, but no preference.
	w.SetLink("east", federation.Link{State: federation.Ready, Source: newOffers("east", "web", "10.1.0.1:80"), Cordon: federation.LastResort})
	if list := w.Steered(false); len(list) != 2 || list[0].Service != plain {
		t.Fatalf("steered services: %+v", list)
	}
	w.Link("east", federation.Ready, newOffers("east", "web", "10.1.0.1:80"))

	expect := func(inUse, spills, returns string) {
		t.Helper()
		want := []string{
			"isthmus_tier_changes_total direction=return namespace=shop service=web " + returns,
			"isthmus_tier_changes_total direction=spill namespace=shop service=web " + spills,
			"isthmus_tier_in_use namespace=shop service=web zone= " + inUse,
			"isthmus_tier_in_use namespace=shop service=web zone=a " + inUse,
		}
		if got := scrape(t, newTierMetrics(w.Table)); !slices.Equal(got, want) {
			t.Errorf("scraped\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
	expect("0", "0", "0")
	w.local()
	expect("1", "2", "0")
	w.local("10.0.0.1:80")
	w.now = w.now.Add(time.Minute)
	w.Tick()
	expect("0", "2", "2")
}
