package federation

import (
	"testing"
)

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
