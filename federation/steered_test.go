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

// TestLateTick checks that a table whose Tick is late decides as one whose Tick is on time. A return
// ends, and before Tick runs the row of tiers ceases to suffice.
func TestLateTick(t *testing.T) {
	for _, late := range []bool{false, true} {
		now := time.Unix(0, 0)
		table := NewTable(Options{Now: func() time.Time { return now }})
		local, east := newCluster(Local), newCluster("east")
		write := func(c *cluster, endpoints ...Endpoint) {
			c.set(webID, "a", endpoints...)
			table.Changed(c.name, webID, now)
		}
		table.Link(Local, Ready, local)
		table.SetLink("east", Link{State: Ready, Source: east, Lost: LastResort})
		table.Define(webID, &Definition{
			Federated:  true,
			Members:    []Member{{Local, webID}, {"east", webID}},
			Preference: &Preference{Tiers: tiersOf("any"), ReturnAfter: time.Minute},
		})
		ours, _ := endpoint("10.0.0.1")
		theirs, _ := endpoint("10.0.1.1")
		write(east, theirs)
		w := table.Watch(Key{Service: webID, Port: 80}) // east is the last resort
		defer w.Close()
		write(local, ours) // the return begins
		write(east)

		now = now.Add(time.Minute)
		if !late {
			table.Tick()
		}
		write(local)
		table.Tick()

		write(local, ours)
		write(east, theirs)
		if got, _ := w.Get(); len(got.Endpoints) != 1 || got.Endpoints[0].Cluster != Local {
			t.Errorf("late=%t: endpoints %v, want the local one only", late, text(got.Endpoints))
		}
	}
}
