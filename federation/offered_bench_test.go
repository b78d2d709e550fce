package federation

import (
	"fmt"
	"net/netip"
	"testing"
)

const crowd = 5000

// crowdedTable has 5,000 watched services with a member in a linked cluster: ten endpoints of
// its own; 10.2.0.1, which two of them have; 10.3.0.1, which a hundred have; and 10.4.0.1, which
// all have.
func crowdedTable(b *testing.B) (*Table, *cluster) {
	table, h, east := NewTable(Options{}), newCluster(Local), newCluster("east")
	table.Link(Local, Ready, h)
	table.Link("east", Ready, east)
	for i := range crowd {
		id := ServiceID{fmt.Sprint("ns-", i%50), fmt.Sprint("web-", i)}
		var list []Endpoint
		add := func(a netip.Addr) { list = append(list, Endpoint{Addr: netip.AddrPortFrom(a, 0), Kind: Pod}) }
		for k := range 10 {
			add(netip.AddrFrom4([4]byte{10, 1 << 4, byte(i >> 4), byte(i&15<<4 + k)}))
		}
		for a, every := range map[string]int{"10.2.0.1": crowd / 2, "10.3.0.1": crowd / 100, "10.4.0.1": 1} {
			if i%every == 0 {
				add(netip.MustParseAddr(a))
			}
		}
		east.set(id, "s", list...)
		table.Define(id, &Definition{Federated: true, Members: []Member{{"east", id}}})
		w := table.Watch(Key{Service: id, Port: 80})
		b.Cleanup(w.Close)
	}
	return table, h
}

// BenchmarkOwnerChangedAmongMany: a Pod of the home cluster gets an address and loses it, amid 5,000 watched services, of
// which none, one, two, a hundred and all have the address.
func BenchmarkOwnerChangedAmongMany(b *testing.B) {
	table, h := crowdedTable(b)
	for offeredBy, addr := range map[string]string{"none": "10.200.0.1", "one": "10.16.0.1", "two": "10.2.0.1", "100": "10.3.0.1", "all": "10.4.0.1"} {
		b.Run("services="+offeredBy, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.own(table, addr, "Pod ns/p")
				h.own(table, addr, "")
			}
		})
	}
}
