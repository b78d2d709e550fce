package federation

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// nodeLocal returns a table with a federated service, whose local member has internalTrafficPolicy
// Local. The members in the local cluster and in east each have an endpoint that appears and
// disappears. The result made contains the watches of n clients on nodes without endpoints.
func nodeLocal(n int) (table *Table, made []*Watch[*Set]) {
	table = NewTable(Options{})
	home, east := newFlipOf(Local, 0, 1), newFlipOf("east", 1, 1)
	home.share[0].NodeLocal, home.share[1].NodeLocal = true, true
	table.Link(Local, Ready, home)
	table.Link("east", Ready, east)
	table.Define(webID, &Definition{Federated: true, Members: []Member{{Local, webID}, {"east", webID}}})
	for i := range n {
		made = append(made, table.Watch(Key{webID, 80, Client{Node: fmt.Sprint("made-up-", i)}}))
	}
	return table, made
}

// TestMadeUpNodes checks that clients that name any number of nodes do not make changes slow.
// Changes on other nodes cost nothing for clients of made-up nodes. Changes for all of these
// clients share one list.
func TestMadeUpNodes(t *testing.T) {
	table, made := nodeLocal(1000)
	there := table.Watch(Key{webID, 80, Client{Node: "n"}})
	before, _ := there.Get()
	unchanged, _ := made[0].Get()
	const runs = 10
	if n := testing.AllocsPerRun(runs, func() { table.Changed(Local, webID, time.Time{}) }); n > 100 {
		t.Errorf("%.0f allocations for a change on one node", n)
	}
	if now, _ := there.Get(); now.Version != before.Version+runs+1 { // one more for the warm-up
		t.Errorf("%d changes were published to the node's clients", now.Version-before.Version)
	}
	if now, _ := made[0].Get(); now != unchanged {
		t.Error("the change of a node was published to clients of another node")
	}
	table.Changed("east", webID, time.Time{})
	first, _ := made[0].Get()
	for _, w := range made {
		now, _ := w.Get()
		if now.Version != unchanged.Version+1 || len(now.Endpoints) == 0 || &now.Endpoints[0] != &first.Endpoints[0] {
			t.Fatalf("version %d, %d endpoints in a separate list", now.Version, len(now.Endpoints))
		}
		w.Close()
	}
	there.Close()
	if len(table.watched.list) != 0 {
		t.Error("a service is still watched")
	}
}

// TestServiceFirst checks that all lists each kind of client once, with clients of the whole
// service before those of instances.
func TestServiceFirst(t *testing.T) {
	p := &port{
		audiences: make(map[string]audience),
		merged:    []*Endpoint{{Addr: netip.MustParseAddrPort("10.0.0.0:80")}},
	}
	for i := range 50 {
		p.join(Client{Instance: fmt.Sprint(i)})
		p.merged = append(p.merged, &Endpoint{
			Addr:     netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}), 80),
			Hostname: fmt.Sprint(i),
		})
	}
	p.join(Client{})
	for name, list := range map[string][]*published{"all": p.all(), "concerned": p.concerned(nil, nil)} {
		if len(list) != 51 || list[0].client.Instance != "" {
			t.Errorf("%s: %d kinds of clients, first one of instance %q", name, len(list), list[0].client.Instance)
		}
	}
}
