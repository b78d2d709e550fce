package federation

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// flipSized returns a source of so many endpoints of the n-th cluster, in slices of 100 at
// most. The first one's place alternates between two addresses.
func flipSized(name ClusterName, n, count int) *flip {
	c := newCluster(name)
	for s := 0; s*100 < count; s++ {
		var eps []Endpoint
		for i := range min(100, count-s*100) {
			ip := netip.AddrFrom4([4]byte{10, byte(n), byte(s), byte(i)})
			eps = append(eps, Endpoint{Addr: netip.AddrPortFrom(ip, 0), Kind: Pod, Node: "n", Zone: fmt.Sprint("z", i%3), Twin: fmt.Sprintf("web-%d-%d", s, i)})
		}
		c.set(webID, fmt.Sprintf("s%03d", s), eps...)
	}
	r := c.Reader(webID, 80)
	f := &flip{}
	f.share[0] = r.Read()
	first := c.services[webID].slices["s000"]
	first[0].Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n), 250, 1}), 0)
	f.share[1] = r.Read()
	return f
}

// BenchmarkSteered: one endpoint of one of three clusters changes, without a preference and
// with ones, for clients of one zone and of three.
func BenchmarkSteered(b *testing.B) {
	half := MinReady{Percent: 50}
	for _, x := range []struct {
		name string
		p    *Preference
	}{
		{"none", nil},
		{"local-any", &Preference{Tiers: tiersOf("local, any")}},
		{"local-any-percent", &Preference{Tiers: tiersOf("local, any"), MinReady: half}},
		{"zone-local-any-percent", &Preference{Tiers: tiersOf("zone, local, any"), MinReady: half}},
	} {
		for _, count := range []int{50, 1000} {
			for _, zones := range []int{1, 3} {
				b.Run(fmt.Sprintf("prefer=%s/endpoints=3x%d/zones=%d", x.name, count, zones), func(b *testing.B) {
					table := steeredTable(count, x.p, webID)
					for z := range zones {
						defer table.Watch(Key{webID, 80, Client{Zone: fmt.Sprint("z", z)}}).Close()
					}
					b.ReportAllocs()
					for b.Loop() {
						table.Changed(Local, webID, time.Time{})
					}
				})
			}
		}
	}
}

func steeredTable(count int, p *Preference, services ...ServiceID) *Table {
	table := NewTable(Options{})
	clusters := []ClusterName{Local, "east", "north"}
	for i, c := range clusters {
		table.Link(c, Ready, flipSized(c, i, count))
	}
	for _, id := range services {
		d := &Definition{Federated: true, Preference: p}
		for _, c := range clusters {
			d.Members = append(d.Members, Member{c, webID})
		}
		table.Define(id, d)
	}
	return table
}

// BenchmarkSchedule: of 5,000 services that change by themselves one is due later than before.
func BenchmarkSchedule(b *testing.B) {
	const services = 5000
	table, now := NewTable(Options{}), time.Now()
	list := make([]watchedService, services)
	n := 0
	later := func() {
		table.schedule.set(&list[n%services], now.Add(time.Duration(n)*time.Millisecond))
		n++
	}
	for range services {
		later()
	}
	for b.Loop() {
		later()
	}
}
