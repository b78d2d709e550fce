package federation

import (
	"slices"
	"testing"
	"time"
)

// TestTierChangeOfPorts: a change of the preference is reported once, also of a service of
// which several ports are watched.
func TestTierChangeOfPorts(t *testing.T) {
	for range 20 { // ports are in no order
		var got []TierChange
		now := time.Unix(0, 0)
		table := NewTable(Options{Now: func() time.Time { return now }, ReportTiers: func(c TierChange) { got = append(got, c) }})
		for _, c := range []ClusterName{"east", "north"} {
			table.Link(c, Ready, newCluster(c))
		}
		local := newCluster(Local)
		table.Link(Local, Ready, local)
		define := func(tiers string) {
			table.Define(webID, &Definition{
				Federated:  true,
				Members:    []Member{{Local, webID}, {"east", webID}, {"north", webID}},
				Preference: &Preference{Tiers: tiersOf(tiers), ReturnAfter: time.Minute},
			})
		}
		define("east, north, local, any")
		defer table.Watch(Key{Service: webID, Port: 80}).Close() // all are in use
		e, _ := endpoint("10.0.0.1")
		local.set(webID, "a", e)
		table.Changed(Local, webID, now)
		defer table.Watch(Key{Service: webID, Port: 81}).Close() // three are
		define("any")
		if len(got) != 1 || got[0].From != 4 || got[0].To != 1 {
			t.Fatalf("reported: %+v", got)
		}
	}
}

// TestTierChangesInOrder: changes for several zones are reported in the same order always.
func TestTierChangesInOrder(t *testing.T) {
	for range 5 {
		var got []string
		table := NewTable(Options{ReportTiers: func(c TierChange) { got = append(got, c.Zone) }})
		local := newCluster(Local)
		table.Link(Local, Ready, local)
		table.Define(webID, &Definition{Federated: true, Members: []Member{{Local, webID}, {"east", webID}}, Preference: &Preference{Tiers: tiersOf("east, local")}})
		for _, z := range []string{"c", "a", "b", ""} {
			defer table.Watch(Key{Service: webID, Port: 80, Client: Client{Zone: z}}).Close()
		}
		east := newCluster("east")
		e, _ := endpoint("10.0.0.1")
		east.set(webID, "a", e)
		table.Link("east", Ready, east)
		if !slices.Equal(got, []string{"", "a", "b", "c"}) {
			t.Fatalf("reported: %q", got)
		}
	}
}
