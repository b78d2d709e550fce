package admin

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"isthmus/cmd/isthmus/internal/cmdtest"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
	"isthmus/grpcapi"
	"isthmus/internal/adminapi"
	"isthmus/internal/panics"
)

// TestServicesPage checks the services that are federated, watched or have problems, with the
// contribution of each member.
func TestServicesPage(t *testing.T) {
	table := federation.NewTable(federation.Options{})
	for _, name := range []string{"web", "quiet"} {
		table.Define(
			cmdtest.ShopID(name),
			&federation.Definition{Members: []federation.Member{{Service: cmdtest.ShopID(name)}}},
		)
	}
	table.Define(
		cmdtest.ShopID("all"),
		&federation.Definition{
			Federated: true,
			Imported:  true,
			Members: []federation.Member{
				{Service: cmdtest.ShopID("web")},
				{Cluster: "east", Service: cmdtest.ShopID("web")},
			},
		},
	)
	table.Link(federation.Local, federation.Ready, cmdtest.Offering(federation.Local, "web", "10.0.0.1:80"))
	w := table.Watch(federation.Key{Service: cmdtest.ShopID("web"), Port: 80})
	defer w.Close()
	s := newShop(table)
	s.served.views = []grpcapi.ViewStatus{
		{Service: cmdtest.ShopID("web"), View: adminapi.View{Streams: 2}},
		{Service: cmdtest.ShopID("web"), View: adminapi.View{Streams: 1}},
		{Service: cmdtest.ShopID("idle")},
		{View: adminapi.View{Streams: 5}},
	}
	s.own.problems = []adminapi.Problem{
		{Service: "shop/odd", Problems: []string{"bad"}},
		{Service: "shop/quiet", Problems: []string{"worse"}},
	}
	want := []adminapi.Service{
		{
			Service:   "shop/all",
			Federated: true,
			Imported:  true,
			Members: []adminapi.Member{
				{Cluster: "local", Service: "shop/web"},
				{Cluster: "east", Service: "shop/web", Reason: "cluster is unlinked"},
			},
			Ports: []adminapi.Port{},
		},
		{Service: "shop/odd", Members: []adminapi.Member{}, Ports: []adminapi.Port{}, Problems: []string{"bad"}},
		{
			Service:  "shop/quiet",
			Members:  []adminapi.Member{{Cluster: "local", Service: "shop/quiet"}},
			Ports:    []adminapi.Port{},
			Problems: []string{"worse"},
		},
		{Service: "shop/web", Members: []adminapi.Member{{Cluster: "local", Service: "shop/web"}}, Streams: 3,
			Ports: []adminapi.Port{
				{Port: 80, Members: []adminapi.PortMember{{Cluster: "local", Service: "shop/web", Endpoints: 1}}},
			}},
	}
	if got := s.services().all(); !reflect.DeepEqual(got, want) {
		t.Errorf("page %+v, want %+v", got, want)
	}
	if p := s.streams().all(); p.Streams != 8 || len(p.Views) != 4 {
		t.Errorf("page of streams %+v", p)
	}
}

// TestFailuresOnPages checks that the pages name the services that cannot be updated, with time and
// reason. Unwatched services are included.
func TestFailuresOnPages(t *testing.T) {
	s := newShop(federation.NewTable(federation.Options{}))
	f := adminapi.Failure{Where: "service", Since: time.Unix(1e9, 0), Panics: 2, Panic: "boom"}
	s.failures = []panics.Failure{
		{Work: panics.Work{Where: panics.Profile, Object: "10.0.0.1:80"}, Failure: f},
		{Work: panics.Work{Where: panics.Policy, Object: "east: namespace shop"}, Failure: f},
		{Work: panics.Work{Where: panics.Service, Service: cmdtest.ShopID("web")}, Failure: f},
	}
	page := s.services().all()
	failures := []adminapi.Failure{f}
	if len(page) != 2 || page[0].Service != "10.0.0.1:80" || page[1].Service != "shop/web" ||
		!reflect.DeepEqual(page[1].Failures, failures) {
		t.Errorf("page %+v", page)
	}
	list := s.explainHandler().failuresOf(cmdtest.ShopID("web"))
	if !reflect.DeepEqual(list, failures) || s.explainHandler().failuresOf(cmdtest.ShopID("api")) != nil {
		t.Errorf("explanation: %+v", list)
	}
}

// TestTiersOnPage checks the preference of a service, its unlinked clusters and its tiers in use.
// The clients of invented instance names are shown only in part.
func TestTiersOnPage(t *testing.T) {
	table, web := federation.NewTable(federation.Options{}), cmdtest.ShopID("web")
	p := &federation.Preference{
		MinReady:    federation.MinReady{Count: 2},
		ReturnAfter: 10 * time.Second,
		Tiers: []federation.Tier{
			{
				{Kind: federation.LocalCluster},
			}, {{Kind: federation.Named, Cluster: "east"}, {Kind: federation.Named, Cluster: "north"}},
		},
	}
	table.Define(
		web,
		&federation.Definition{
			Federated:  true,
			Preference: p,
			Members:    []federation.Member{{Service: web}, {Cluster: "east", Service: web}},
		},
	)
	table.Link(
		federation.Local,
		federation.Ready,
		cmdtest.Offering(federation.Local, "web", "10.0.0.1:80", "10.0.0.2:80"),
	)
	table.Link("east", federation.Ready, cmdtest.Offering("east", "web", "10.1.0.1:80"))
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
		if got := s.services().all()[0].Preference; !reflect.DeepEqual(got, want) {
			t.Errorf("preference %+v, want %+v", got, want)
		}
		own.Annotations = map[string]string{"isthmus.io/prefer": "local, east+north"}
	}
	if got := s.services().all()[0].Clients; len(got) != 2 || got[1].Zone != "a" ||
		!slices.Equal(
			got[0].Tiers,
			[]adminapi.Tier{{Tier: "local", InUse: true, Ready: 2, Sent: 2}, {Tier: "east+north", Ready: 1}},
		) {
		t.Errorf("clients %+v", got)
	}
	for i := range 500 {
		watch(federation.Client{Instance: fmt.Sprint("no-such-", i)})
	}
	if s := s.services().all()[0]; len(s.Clients) != 100 || s.MoreClients != 402 || s.Clients[0].Instance != "" {
		t.Errorf("%d kinds of clients and %d more, the first two are %+v", len(s.Clients), s.MoreClients, s.Clients[:2])
	}
}

// TestLackedPorts checks that a member's undeclared ports are listed with the ports that it
// declares instead.
func TestLackedPorts(t *testing.T) {
	table := federation.NewTable(federation.Options{})
	table.Define(
		cmdtest.ShopID("web"),
		&federation.Definition{
			Federated: true,
			Members: []federation.Member{
				{Service: cmdtest.ShopID("web")},
				{Service: cmdtest.ShopID("other")},
				{Service: cmdtest.ShopID("gone")},
			},
		},
	)
	s := newShop(table)
	ports := func(list ...cluster.ServicePort) *cluster.Service { return &cluster.Service{Ports: list} }
	s.own.services = map[federation.ServiceID]*cluster.Service{
		cmdtest.ShopID("web"): ports(
			cluster.ServicePort{Name: "http", Number: 80},
			cluster.ServicePort{Number: 81},
			cluster.ServicePort{Name: "admin", Number: 99},
		),
		cmdtest.ShopID("other"): ports(
			cluster.ServicePort{Name: "http", Number: 8080},
			cluster.ServicePort{Name: "x", Number: 99},
		),
	}
	var got []string
	for _, m := range s.services().all()[0].Members {
		got = append(got, fmt.Sprint(m.LacksPorts))
	}
	if want := []string{"[]", "[80 (http is 8080 there) 81]", "[]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
