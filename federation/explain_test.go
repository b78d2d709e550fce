package federation

import (
	"net/netip"
	"testing"
)

// oneSlice is a cluster that offers the same of every service.
type oneSlice struct{ slice *Slice }

func (oneSlice) State(ServiceID) ServiceState      { return Present }
func (o oneSlice) Reader(ServiceID, uint16) Reader { return o }
func (oneSlice) Owner(netip.Addr) string           { return "" }
func (o oneSlice) Read() Share                     { return Share{State: Present, Slices: []*Slice{o.slice}} }
func (o oneSlice) link(cordon, lost Standing) Link {
	return Link{State: Ready, Source: o, Cordon: cordon, Lost: lost}
}
func at(c ClusterName, addr, zone string) *oneSlice {
	return &oneSlice{&Slice{Endpoints: []*Endpoint{{Addr: netip.MustParseAddrPort(addr), Cluster: c, Zone: zone}}}}
}

// TestTiers: a set knows its endpoints' tiers and standings, and when they change, which
// publishes no set. A change of nothing but what decides them is none.
func TestTiers(t *testing.T) {
	table := NewTable(Options{})
	web := ServiceID{Namespace: "shop", Name: "web"}
	east := at("east", "10.1.0.1:80", "a")
	define := func(minReady int, tiers ...Tier) {
		table.Define(web, &Definition{Federated: true, Preference: &Preference{Tiers: tiers, MinReady: MinReady{Count: minReady}},
			Members: []Member{{Service: web}, {Cluster: "east", Service: web}}})
	}
	define(1)
	table.Link(Local, Ready, &oneSlice{&Slice{}})
	table.SetLink("east", east.link(InService, InService))
	w := table.Watch(Key{Service: web, Port: 80, Client: Client{Zone: "a"}})
	defer w.Close()
	first, _ := w.Get()
	before, changed := first.Tiers()
	for _, step := range []struct {
		what     string
		do       func()
		tier     string // empty: clients get everything
		standing Standing
		same     bool // there is no change
	}{
		{"no preference", func() {}, "", InService, true},
		{"a cordon, and nothing else to offer", func() { table.SetLink("east", east.link(LastResort, InService)) }, "last-resort", LastResort, false},
		{"lost too", func() { table.SetLink("east", east.link(LastResort, LastResort)) }, "last-resort", LastResort, true},
		{"back", func() { table.SetLink("east", east.link(InService, InService)) }, "", InService, false},
		{"a preference", func() { define(1, Tier{{Kind: LocalCluster}}, Tier{{Kind: Remote}, {Kind: AnyCluster}}) }, "remote+any", InService, false},
		{"another min-ready", func() { define(2, Tier{{Kind: LocalCluster}}, Tier{{Kind: Remote}, {Kind: AnyCluster}}) }, "remote+any", InService, true},
		{"another region", func() {
			l := east.link(InService, InService)
			l.Region = "r"
			table.SetLink("east", l)
		}, "remote+any", InService, true},
		{"another tier", func() { define(2, Tier{{Kind: ClientZone}}, Tier{{Kind: AnyCluster}}) }, "zone", InService, false},
	} {
		step.do()
		same := true
		select {
		case <-changed:
			same = false
		default:
		}
		set, _ := w.Get()
		now, next := set.Tiers()
		tier, standing, ok := now.Of(set.Endpoints[0], "a")
		if tier != step.tier || standing != step.standing || ok != (step.tier != "") || same != step.same || (now == before) != step.same {
			t.Errorf("%s: tier %q, standing %v, unchanged is %v, want %q, %v, %v", step.what, tier, standing, same, step.tier, step.standing, step.same)
		}
		if set != first {
			t.Errorf("%s: there is another set, version %d", step.what, set.Version)
		}
		before, changed = now, next
	}
}
