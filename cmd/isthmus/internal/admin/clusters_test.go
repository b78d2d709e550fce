package admin

import (
	"net/netip"
	"reflect"
	"testing"

	"isthmus/cmd/isthmus/internal/cmdtest"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// TestRefusedOnPages checks that pages name rejected or conflicting addresses and their claimants.
// The page of clusters shows two per cluster.
func TestRefusedOnPages(t *testing.T) {
	table := federation.NewTable(federation.Options{})
	table.Define(
		cmdtest.ShopID("web"),
		&federation.Definition{
			Federated: true,
			Members: []federation.Member{
				{Cluster: "east", Service: cmdtest.ShopID("web")},
				{Cluster: "north", Service: cmdtest.ShopID("web")},
			},
		},
	)
	table.Link(federation.Local, federation.Ready, cmdtest.Offering(federation.Local, "web"))
	table.SetLink(
		"east",
		federation.Link{
			State:  federation.Ready,
			Source: cmdtest.Offering("east", "web", "10.0.0.1:80", "10.0.0.99:80", "10.1.0.1:80", "10.1.0.2:80"),
			Within: federation.NewRanges(netip.MustParsePrefix("10.0.0.0/24")),
		},
	)
	table.Link("north", federation.Ready, cmdtest.Offering("north", "web", "10.0.0.1:80"))
	defer table.Watch(federation.Key{Service: cmdtest.ShopID("web"), Port: 80}).Close()
	want := []adminapi.PortMember{
		{Cluster: "east", Service: "shop/web", Endpoints: 4, Refused: 3, Refusals: []string{
			"10.0.0.99:80 is assigned to Pod shop/mine in the local cluster",
			"10.1.0.1:80 is outside the address ranges of the link",
			"10.1.0.2:80 is outside the address ranges of the link"}},
		{
			Cluster:       "north",
			Service:       "shop/web",
			Endpoints:     1,
			Conflicts:     1,
			ConflictsWith: []string{"10.0.0.1:80 is sent from shop/web of cluster east"},
		},
	}
	s := newShop(table)
	if got := s.services().all()[0].Ports[0].Members; !reflect.DeepEqual(got, want) {
		t.Errorf("services: %+v, want %+v", got, want)
	}
	if got, want := s.clusters().all().Refused, []adminapi.Refused{
		{Cluster: "east", Outside: 2, Owned: 1, Examples: []string{
			"shop/web of east, offered to shop/web: 10.0.0.99:80 is assigned to Pod shop/mine in the local cluster",
			"shop/web of east, offered to shop/web: 10.1.0.1:80 is outside the address ranges of the link"}},
	}; !reflect.DeepEqual(
		got,
		want,
	) {
		t.Errorf("clusters: %+v, want %+v", got, want)
	}
}
