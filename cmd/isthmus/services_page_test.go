package main

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
	"isthmus/internal/panics"
)

func shopID(name string) federation.ServiceID {
	return federation.ServiceID{Namespace: "shop", Name: name}
}

// TestServicesPage: services that are federated or watched or that have problems, with what each member adds.
func TestServicesPage(t *testing.T) {
	table := federation.NewTable(federation.Options{})
	for _, name := range []string{"web", "quiet"} {
		table.Define(shopID(name), &federation.Definition{Members: []federation.Member{{Service: shopID(name)}}})
	}
	table.Define(shopID("all"), &federation.Definition{Federated: true, Imported: true, Members: []federation.Member{{Service: shopID("web")}, {Cluster: "east", Service: shopID("web")}}})
	table.Link(federation.Local, federation.Ready, newOffers(federation.Local, "web", "10.0.0.1:80"))
	w := table.Watch(federation.Key{Service: shopID("web"), Port: 80})
	defer w.Close()
	s := newShop(table)
	s.served.views = []grpcapi.ViewStatus{{Service: shopID("web"), View: adminapi.View{Streams: 2}}, {Service: shopID("web"), View: adminapi.View{Streams: 1}}, {Service: shopID("idle")}, {View: adminapi.View{Streams: 5}}}
	s.own.problems = []adminapi.Problem{{Service: "shop/odd", Problems: []string{"bad"}}, {Service: "shop/quiet", Problems: []string{"worse"}}}
	want := []adminapi.Service{
		{Service: "shop/all", Federated: true, Imported: true, Members: []adminapi.Member{{Cluster: "local", Service: "shop/web"}, {Cluster: "east", Service: "shop/web", Reason: "cluster is unlinked"}}, Ports: []adminapi.Port{}},
		{Service: "shop/odd", Members: []adminapi.Member{}, Ports: []adminapi.Port{}, Problems: []string{"bad"}},
		{Service: "shop/quiet", Members: []adminapi.Member{{Cluster: "local", Service: "shop/quiet"}}, Ports: []adminapi.Port{}, Problems: []string{"worse"}},
		{Service: "shop/web", Members: []adminapi.Member{{Cluster: "local", Service: "shop/web"}}, Streams: 3,
			Ports: []adminapi.Port{{Port: 80, Members: []adminapi.PortMember{{Cluster: "local", Service: "shop/web", Endpoints: 1}}}}},
	}
	if got := s.servicesPage(); !reflect.DeepEqual(got, want) {
		t.Errorf("page %+v, want %+v", got, want)
	}
	if p := s.streamsPage(); p.Streams != 8 || len(p.Views) != 4 {
		t.Errorf("page of streams %+v", p)
	}
}

// TestFailuresOnPages: the pages name the services that can't be updated, since when and why, also
// those that nobody watches.
func TestFailuresOnPages(t *testing.T) {
	s := newShop(federation.NewTable(federation.Options{}))
	f := adminapi.Failure{Where: "service", Since: time.Unix(1e9, 0), Panics: 2, Panic: "boom"}
	s.failures = []panics.Failure{
		{Work: panics.Work{Where: panics.Profile, Object: "10.0.0.1:80"}, Failure: f},
		{Work: panics.Work{Where: panics.Policy, Object: "east: namespace shop"}, Failure: f},
		{Work: panics.Work{Where: panics.Service, Service: shopID("web")}, Failure: f},
	}
	page := s.servicesPage()
	failures := []adminapi.Failure{f}
	if len(page) != 2 || page[0].Service != "10.0.0.1:80" || page[1].Service != "shop/web" ||
		!reflect.DeepEqual(page[1].Failures, failures) {
		t.Errorf("page %+v", page)
	}
	list := s.failuresOf(shopID("web"))
	if !reflect.DeepEqual(list, failures) || s.failuresOf(shopID("api")) != nil {
		t.Errorf("to explain: %+v", list)
	}
}

// TestRefusedOnPages: pages name addresses that are refused or in conflict with who has
// them, and the page of clusters two of each cluster.
func TestRefusedOnPages(t *testing.T) {
	table := federation.NewTable(federation.Options{})
	table.Define(shopID("web"), &federation.Definition{Federated: true, Members: []federation.Member{{Cluster: "east", Service: shopID("web")}, {Cluster: "north", Service: shopID("web")}}})
	table.Link(federation.Local, federation.Ready, newOffers(federation.Local, "web"))
	table.SetLink("east", federation.Link{State: federation.Ready, Source: newOffers("east", "web", "10.0.0.1:80", "10.0.0.99:80", "10.1.0.1:80", "10.1.0.2:80"), Within: federation.NewRanges(netip.MustParsePrefix("10.0.0.0/24"))})
	table.Link("north", federation.Ready, newOffers("north", "web", "10.0.0.1:80"))
	defer table.Watch(federation.Key{Service: shopID("web"), Port: 80}).Close()
	want := []adminapi.PortMember{
		{Cluster: "east", Service: "shop/web", Endpoints: 4, Refused: 3, Refusals: []string{
			"10.0.0.99:80 belongs to Pod shop/mine of the local cluster",
			"10.1.0.1:80 is outside the address ranges of the link", "10.1.0.2:80 is outside the address ranges of the link"}},
		{Cluster: "north", Service: "shop/web", Endpoints: 1, Conflicts: 1, ConflictsWith: []string{"10.0.0.1:80 is sent from shop/web of cluster east"}},
	}
	s := newShop(table)
	if got := s.servicesPage()[0].Ports[0].Members; !reflect.DeepEqual(got, want) {
		t.Errorf("services: %+v, want %+v", got, want)
	}
	if got, want := s.clustersPage().Refused, []adminapi.Refused{{Cluster: "east", Outside: 2, Owned: 1, Examples: []string{
		"shop/web of east, offered to shop/web: 10.0.0.99:80 belongs to Pod shop/mine of the local cluster",
		"shop/web of east, offered to shop/web: 10.1.0.1:80 is outside the address ranges of the link"}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("clusters: %+v, want %+v", got, want)
	}
}

// TestTiersOnPage: the page shows the preference, which clusters that the Service itself names are not linked, and what clients
// use: of those who make up names of instances some. The gateway's own preference may name any cluster.
func TestTiersOnPage(t *testing.T) {
	table, web := federation.NewTable(federation.Options{}), shopID("web")
	p := &federation.Preference{MinReady: federation.MinReady{Count: 2}, ReturnAfter: 10 * time.Second, Tiers: []federation.Tier{
		{{Kind: federation.LocalCluster}}, {{Kind: federation.Named, Cluster: "east"}, {Kind: federation.Named, Cluster: "north"}},
	}}
	table.Define(web, &federation.Definition{Federated: true, Preference: p, Members: []federation.Member{{Service: web}, {Cluster: "east", Service: web}}})
	table.Link(federation.Local, federation.Ready, newOffers(federation.Local, "web", "10.0.0.1:80", "10.0.0.2:80"))
	table.Link("east", federation.Ready, newOffers("east", "web", "10.1.0.1:80"))
	watch := func(c federation.Client) {
		t.Cleanup(table.Watch(federation.Key{Service: web, Port: 80, Client: c}).Close)
	}
	watch(federation.Client{Zone: "a"})
	watch(federation.Client{})
	s := newShop(table)
	s.linked = linkedShops{{Cluster: "east"}}
	own := &cluster.Service{}
	s.own.services = map[federation.ServiceID]*cluster.Service{web: own}
	want := &adminapi.Preference{Prefer: "local, east+north", MinReady: "2", ReturnAfter: "10s", ReturnOver: "0s"}
	for _, unlinked := range [][]string{nil, {"north"}} {
		want.Unlinked = unlinked
		if got := s.servicesPage()[0].Preference; !reflect.DeepEqual(got, want) {
			t.Errorf("preference %+v, want %+v", got, want)
		}
		own.Annotations = map[string]string{"isthmus.io/prefer": "local, east+north"}
	}
	if got := s.servicesPage()[0].Clients; len(got) != 2 || got[1].Zone != "a" || !slices.Equal(got[0].Tiers, []adminapi.Tier{{Tier: "local", InUse: true, Ready: 2, Sent: 2}, {Tier: "east+north", Ready: 1}}) {
		t.Errorf("clients %+v", got)
	}
	for i := range 500 {
		watch(federation.Client{Instance: fmt.Sprint("no-such-", i)})
	}
	if s := s.servicesPage()[0]; len(s.Clients) != 100 || s.MoreClients != 402 || s.Clients[0].Instance != "" {
		t.Errorf("%d kinds of clients and %d more, the first are %+v", len(s.Clients), s.MoreClients, s.Clients[:2])
	}
}

// TestLackedPorts: of a member those ports are named that it does not declare, and what it has instead.
func TestLackedPorts(t *testing.T) {
	table := federation.NewTable(federation.Options{})
	table.Define(shopID("web"), &federation.Definition{Federated: true, Members: []federation.Member{{Service: shopID("web")}, {Service: shopID("other")}, {Service: shopID("gone")}}})
	s := newShop(table)
	ports := func(list ...cluster.ServicePort) *cluster.Service { return &cluster.Service{Ports: list} }
	s.own.services = map[federation.ServiceID]*cluster.Service{
		shopID("web"):   ports(cluster.ServicePort{Name: "http", Number: 80}, cluster.ServicePort{Number: 81}, cluster.ServicePort{Name: "admin", Number: 99}),
		shopID("other"): ports(cluster.ServicePort{Name: "http", Number: 8080}, cluster.ServicePort{Name: "x", Number: 99}),
	}
	var got []string
	for _, m := range s.servicesPage()[0].Members {
		got = append(got, fmt.Sprint(m.LacksPorts))
	}
	if want := []string{"[]", "[80 (http is 8080 there) 81]", "[]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
