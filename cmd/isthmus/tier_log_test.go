package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"isthmus/cmd/isthmus/internal/logging"
	"isthmus/federation"
)

// TestReportTiers: a line for each change names the tiers in use since then, and why.
func TestReportTiers(t *testing.T) {
	core, seen := observer.New(zap.InfoLevel)
	w := newTiered(t, federation.Preference{ReturnAfter: time.Minute}, federation.Options{ReportTiers: reportTiers(zap.New(core))})
	w.local()
	w.SetLink("east", federation.Link{State: federation.Ready, Source: newOffers("east", "web", "10.1.0.1:80"), Cordon: federation.LastResort})
	w.local("10.0.0.1:80")
	w.now = w.now.Add(time.Minute)
	w.Tick()
	var got []string
	for _, e := range seen.All() {
		f := e.ContextMap()
		got = append(got, fmt.Sprintf("%s: %v zone %q %v to %v: %v (%v)", e.Message, f["service"], f["zone"], f["from"], f["to"], f["tiers"], f["why"]))
	}
	var want []string
	for _, zone := range []string{"", "a"} {
		more, fewer := "clients use more tiers of a service", "clients use fewer tiers of a service"
		want = append(want,
			fmt.Sprintf("%s: shop/web zone %q 1 to 2: local, east+north (local: 0 ready, min-ready is 1)", more, zone),
			fmt.Sprintf("%s: shop/web zone %q 2 to 3: local, east+north, last-resort (local, east+north: 0 ready, min-ready is 1)", more, zone),
			fmt.Sprintf("%s: shop/web zone %q 3 to 1: local (local: 1 ready, min-ready is 1)", fewer, zone))
	}
	slices.Sort(got) // zones come in any order
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("lines\n %q, want\n %q", got, want)
	}
}

// TestReportTiersLimits: a namespace whose services change all the time silences no other one.
func TestReportTiersLimits(t *testing.T) {
	core, seen := observer.New(zap.InfoLevel)
	report := reportTiers(zap.New(logging.Limit(core)))
	change := func(namespace string) {
		report(federation.TierChange{Service: federation.ServiceID{Namespace: namespace, Name: "web"}, Preference: &federation.Preference{}, From: 1, To: 2})
	}
	for range 1000 {
		change("flaps")
	}
	change("shop")
	lines := make(map[any]int)
	for _, e := range seen.All() {
		lines[e.ContextMap()["service"]]++
	}
	if n := lines["flaps/web"]; n < logging.Burst || n > logging.Burst+10 || lines["shop/web"] != 1 { // one more each second
		t.Errorf("lines by service: %v", lines)
	}
}
