package federation

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// TestBehindGateways: a member counts with what is behind its gateways, however many of these
// are served, and not at all without one.
func TestBehindGateways(t *testing.T) {
	now := time.Unix(0, 0)
	for name, min := range map[string]MinReady{"count": {Count: 3}, "share": {Percent: 50}} {
		t.Run(name, func(t *testing.T) {
			table := NewTable(Options{Now: func() time.Time { return now }})
			east, north := newCluster("east"), newCluster("north")
			table.Link("east", Ready, east)
			table.Link("north", Ready, north)
			table.Define(webID, &Definition{
				Federated:  true,
				Members:    []Member{{"east", webID}, {"north", webID}},
				Preference: &Preference{Tiers: tiersOf("cluster/east, any"), MinReady: min},
			})
			w := table.Watch(Key{Service: webID, Port: 80})
			defer w.Close()
			first, _ := endpoint("198.51.100.1")
			second, _ := endpoint("198.51.100.2")
			pod, _ := endpoint("10.0.0.1")
			north.set(webID, "n", pod)
			table.Changed("north", webID, now)
			expect := func(ready, unready int, gateways []Endpoint, want ...string) {
				t.Helper()
				east.set(webID, "gateways", gateways...)
				east.setBehind(webID, "gateways", ready, unready)
				table.Changed("east", webID, now)
				set, _ := w.Get()
				var got []string
				for _, e := range set.Endpoints {
					got = append(got, e.Addr.Addr().String())
				}
				if !slices.Equal(got, want) {
					t.Errorf("%d of %d ready behind %d gateways: served are %q, not %q", ready, ready+unready, len(gateways), got, want)
				}
			}
			both := []Endpoint{first, second}
			expect(3, 3, both, "198.51.100.1", "198.51.100.2")
			expect(2, 3, both, "10.0.0.1", "198.51.100.1", "198.51.100.2")
			expect(3, 3, both[:1], "198.51.100.1")
			expect(0, 5, nil, "10.0.0.1")
			expect(5, 0, both, "198.51.100.1", "198.51.100.2")
			table.SetLink("east", Link{State: Ready, Source: east, Within: Ranges{netip.MustParsePrefix("198.51.100.2/32")}})
			expect(3, 0, both, "198.51.100.2")
			table.SetLink("east", Link{State: Ready, Source: east, Within: Ranges{netip.MustParsePrefix("192.0.2.0/24")}})
			expect(5, 0, both, "10.0.0.1")
		})
	}
}

// TestBehindGatewaysByNode: a local traffic policy of the own cluster's Service makes no
// difference to how other clusters count.
func TestBehindGatewaysByNode(t *testing.T) {
	table := NewTable(Options{})
	local, east, north := newCluster(Local), newCluster("east"), newCluster("north")
	for name, c := range map[ClusterName]*cluster{Local: local, "east": east, "north": north} {
		table.Link(name, Ready, c)
	}
	local.set(webID, "l")
	local.services[webID].nodeLocal = true
	gateway, _ := endpoint("198.51.100.1")
	pod, _ := endpoint("10.0.0.1")
	east.set(webID, "gateways", gateway)
	east.setBehind(webID, "gateways", 3, 0)
	north.set(webID, "n", pod)
	table.Define(webID, &Definition{
		Federated: true, Members: []Member{{Local, webID}, {"east", webID}, {"north", webID}},
		Preference: &Preference{Tiers: tiersOf("east, any"), MinReady: MinReady{Count: 3}},
	})
	w := table.Watch(Key{Service: webID, Port: 80, Client: Client{Node: "n1"}})
	defer w.Close()
	if set, _ := w.Get(); !set.ByNode || len(set.Endpoints) != 1 || set.Endpoints[0].Addr.Addr() != gateway.Addr.Addr() {
		t.Errorf("served are %v", text(set.Endpoints))
	}
}

// TestExplainGatewayInstance: clients of an instance learn why a gateway is not for them.
func TestExplainGatewayInstance(t *testing.T) {
	table, east := NewTable(Options{}), newCluster("east")
	table.Link("east", Ready, east)
	gateway, _ := endpoint("198.51.100.1")
	east.set(webID, "gateways", gateway)
	east.setBehind(webID, "gateways", 1, 0)
	table.Define(webID, &Definition{Federated: true, Members: []Member{{"east", webID}}})
	k := Key{Service: webID, Port: 80, Client: Client{Instance: "web-0"}}
	defer table.Watch(k).Close()
	if a := explained(t, table, k).Addresses[0]; a.Verdict != OtherInstance || a.Detail != "an instance can't be addressed through a gateway" {
		t.Errorf("%v %q", a.Verdict, a.Detail)
	}
}
