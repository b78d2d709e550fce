package admin

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/internal/adminapi"
)

func TestRepeatsAreFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := NewEventLog()
		began := time.Now()
		for range 1000 {
			log.Add(adminapi.Event{Kind: adminapi.EventCluster, Object: "east", Text: "stale", Problem: true})
			time.Sleep(time.Second)
			log.Add(adminapi.Event{Kind: adminapi.EventCluster, Object: "east", Text: "ready"})
		}
		got := log.Newest()
		if len(got) != 2 || got[0].Text != "ready" || got[1].Text != "stale" || !got[1].Problem {
			t.Fatalf("%+v", got)
		}
		if e := got[0]; e.Count != 1000 || !e.First.Equal(began.Add(time.Second)) ||
			!e.At.Equal(began.Add(1000*time.Second)) {
			t.Errorf("%+v", e)
		}
	})
}

// TestManyDoNotPushOutFew checks that frequent events do not displace other events. Frequent events
// come from a cluster that fails for many reasons, or from thousands of services.
func TestManyDoNotPushOutFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := NewEventLog()
		add := func(kind adminapi.EventKind, object, text string) {
			log.Add(adminapi.Event{Kind: kind, Object: object, Text: text})
			time.Sleep(time.Millisecond)
		}
		add(adminapi.EventRotation, "north", "rotated")
		add(adminapi.EventCluster, "north", "ready")
		for i := range 1000 {
			add(adminapi.EventCluster, "east", fmt.Sprint("stale: reason ", i))
		}
		for i := range 10_000 {
			add(adminapi.EventTier, fmt.Sprint("shop/web-", i), "more tiers")
		}
		count := map[string]int{}
		for _, e := range log.Newest() {
			count[string(e.Kind)+" "+e.Object]++
			count[string(e.Kind)]++
		}
		if count["rotation north"] != 1 || count["cluster north"] != 1 || count["cluster east"] != maxEventsOfObject {
			t.Errorf("%v", count)
		}
		if want := maxEvents - 1 - 1 - maxEventsOfObject; count["tier"] != want {
			t.Errorf("%d tier events, want %d", count["tier"], want)
		}
		newest := log.Newest()
		if newest[0].Object != "shop/web-9999" || len(newest) != maxEvents {
			t.Errorf("%d events, the newest %+v", len(newest), newest[0])
		}
	})
}

func TestTextsAreBoundedAndPrintable(t *testing.T) {
	log := NewEventLog()
	log.Add(
		adminapi.Event{
			Kind:   "k",
			Object: strings.Repeat("o", 1000),
			Text:   "\x1b[31m\u202ered\n" + strings.Repeat("ü", 1000),
		},
	)
	e := log.Newest()[0]
	if len(e.Object) > 253 || len(e.Text) > 400 || !strings.HasSuffix(e.Text, "ü…") ||
		!strings.HasPrefix(e.Text, "\ufffd[31m\ufffdred ü") {
		t.Errorf("%q %q", e.Object, e.Text)
	}
}
