package main

import (
	"net/netip"
	"reflect"
	"testing"

	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
)

// TestServicesPage: services that are federated or watched or that have problems, with what each member adds.
func TestServicesPage(t *testing.T) {
	table := federation.NewTable(federation.Options{})
	id := func(name string) federation.ServiceID { return federation.ServiceID{Namespace: "shop", Name: name} }
	for _, name := range []string{"web", "quiet"} {
		table.Define(id(name), &federation.Definition{Members: []federation.Member{{Service: id(name)}}})
	}
	table.Define(id("all"), &federation.Definition{Federated: true, Imported: true, Members: []federation.Member{{Service: id("web")}, {Cluster: "east", Service: id("web")}}})
	table.Link(federation.Local, federation.Ready, newOffers(federation.Local, "web", "10.0.0.1:80"))
	w := table.Watch(federation.Key{Service: id("web"), Port: 80})
	defer w.Close()
	views := []grpcapi.ViewStatus{{Service: id("web"), View: adminapi.View{Streams: 2}}, {Service: id("web"), View: adminapi.View{Streams: 1}}, {Service: id("idle")}, {View: adminapi.View{Streams: 5}}}
	got := newServicesPage(table, views, []adminapi.Problem{{Service: "shop/odd", Problems: []string{"bad"}}, {Service: "shop/quiet", Problems: []string{"worse"}}}, nothing)
	want := []adminapi.Service{
		{Service: "shop/all", Federated: true, Imported: true, Members: []adminapi.Member{{Cluster: "local", Service: "shop/web"}, {Cluster: "east", Service: "shop/web", Reason: "cluster is unlinked"}}, Ports: []adminapi.Port{}},
		{Service: "shop/odd", Members: []adminapi.Member{}, Ports: []adminapi.Port{}, Problems: []string{"bad"}},
		{Service: "shop/quiet", Members: []adminapi.Member{{Cluster: "local", Service: "shop/quiet"}}, Ports: []adminapi.Port{}, Problems: []string{"worse"}},
		{Service: "shop/web", Members: []adminapi.Member{{Cluster: "local", Service: "shop/web"}}, Streams: 3,
			Ports: []adminapi.Port{{Port: 80, Members: []adminapi.PortMember{{Cluster: "local", Service: "shop/web", Endpoints: 1}}}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("page %+v, want %+v", got, want)
	}
	if p := newStreamsPage(views); p.Streams != 8 || len(p.Views) != 4 {
		t.Errorf("page of streams %+v", p)
	}
}

// TestRefusedOnPages: pages name addresses that are refused or in conflict with who has
// them, and the page of clusters two of each cluster.
func TestRefusedOnPages(t *testing.T) {
	table := federation.NewTable(federation.Options{})
	web := federation.ServiceID{Namespace: "shop", Name: "web"}
	table.Define(web, &federation.Definition{Federated: true, Members: []federation.Member{{Cluster: "east", Service: web}, {Cluster: "north", Service: web}}})
	table.Link(federation.Local, federation.Ready, newOffers(federation.Local, "web"))
	table.SetLink("east", federation.Link{State: federation.Ready, Source: newOffers("east", "web", "10.0.0.1:80", "10.0.0.99:80", "10.1.0.1:80", "10.1.0.2:80"), Within: federation.NewRanges(netip.MustParsePrefix("10.0.0.0/24"))})
	table.Link("north", federation.Ready, newOffers("north", "web", "10.0.0.1:80"))
	defer table.Watch(federation.Key{Service: web, Port: 80}).Close()
	want := []adminapi.PortMember{
		{Cluster: "east", Service: "shop/web", Endpoints: 4, Refused: 3, Refusals: []string{
			"10.0.0.99:80 belongs to Pod shop/mine of the local cluster",
			"10.1.0.1:80 is outside the address ranges of the link", "10.1.0.2:80 is outside the address ranges of the link"}},
		{Cluster: "north", Service: "shop/web", Endpoints: 1, Conflicts: 1, ConflictsWith: []string{"10.0.0.1:80 is sent from shop/web of cluster east"}},
	}
	if got := newServicesPage(table, nil, nil, nothing)[0].Ports[0].Members; !reflect.DeepEqual(got, want) {
		t.Errorf("services: %+v, want %+v", got, want)
	}
	if got, want := newRefused(table.Watched()), []adminapi.Refused{{Cluster: "east", Outside: 2, Owned: 1, Examples: []string{
		"shop/web of east, offered to shop/web: 10.0.0.99:80 belongs to Pod shop/mine of the local cluster",
		"shop/web of east, offered to shop/web: 10.1.0.1:80 is outside the address ranges of the link"}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("clusters: %+v, want %+v", got, want)
	}
}
