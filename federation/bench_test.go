package federation

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// BenchmarkChanged measures a change of one endpoint of one cluster, with different numbers of
// endpoints, clusters and keys.
func BenchmarkChanged(b *testing.B) {
	for _, x := range []struct{ clusters, slices, views int }{
		{5, 10, 1},
		{5, 10, 4},
		{1, 1, 1},
		{1, 10, 1},
		{1, 100, 1},
		{10, 10, 1},
		{50, 10, 1},
	} {
		b.Run(fmt.Sprintf("clusters=%d/endpoints=%d/views=%d", x.clusters, x.slices*100, x.views), func(b *testing.B) {
			table, id := NewTable(Options{}), ServiceID{"ns", "web"}
			d := &Definition{Federated: true}
			for n := range x.clusters {
				c := ClusterName(fmt.Sprint("c", n))
				table.Link(c, Ready, newFlip(n, x.slices))
				d.Members = append(d.Members, Member{c, id})
			}
			table.Define(id, d)
			for v := range x.views {
				w := table.Watch(Key{id, 80, Client{Zone: fmt.Sprint(v)}})
				defer w.Close()
			}
			w := table.Watch(Key{id, 80, Client{Zone: "0"}})
			defer w.Close()
			before, _ := w.Get()
			b.ReportAllocs()
			for b.Loop() {
				table.Changed("c0", id, time.Time{})
			}
			if now, _ := w.Get(); now.Version != before.Version+uint64(b.N) {
				b.Fatalf("%d changes were published as %d", b.N, now.Version-before.Version)
			}
		})
	}
}

// many adds k slices of 100 endpoints to the n-th cluster.
func many(c *cluster, n, k int) {
	for s := range k {
		var eps []Endpoint
		for i := range 100 {
			ip := netip.AddrFrom4([4]byte{10, byte(n), byte(s), byte(i)})
			eps = append(eps, Endpoint{Addr: netip.AddrPortFrom(ip, 0), Kind: Pod, Node: "n", Zone: "z"})
		}
		c.set(ServiceID{"ns", "web"}, fmt.Sprintf("s%03d", s), eps...)
	}
}

// flip is a Source that returns prepared slices, one of which alternates. Prepared slices keep the
// cost of a source out of the benchmarks.
type flip struct {
	share [2]Share
	n     int
}

func (f *flip) State(ServiceID) ServiceState { return Present }

func (f *flip) Declares(ServiceID, uint16) bool { return true }

func (f *flip) Reader(id ServiceID, port uint16) Reader { return f }

func (f *flip) Read() Share { f.n++; return f.share[f.n%2] }

func newFlip(n, k int) *flip { return newFlipOf(ClusterName(fmt.Sprint("c", n)), n, k) }

func newFlipOf(name ClusterName, n, k int) *flip {
	c := newCluster(name)
	many(c, n, k)
	r := c.Reader(ServiceID{"ns", "web"}, 80)
	f := &flip{}
	f.share[0] = r.Read()
	c.set(ServiceID{"ns", "web"}, "s000", Endpoint{Addr: netip.MustParseAddrPort(fmt.Sprintf("10.%d.250.1:0", n))})
	web := c.services[ServiceID{"ns", "web"}]
	web.slices["s000"] = append(web.slices["s000"], flipped(f.share[0].Slices[0])...)
	f.share[1] = r.Read()
	return f
}

// flipped returns all endpoints of a slice except the first.
func flipped(s *Slice) (eps []Endpoint) {
	for _, e := range s.Endpoints[1:] {
		eps = append(eps, *e)
	}
	return eps
}

// BenchmarkSteered measures a change of one endpoint of one of three clusters. The benchmark varies
// the preference and the number of client zones.
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

// flipSized returns a source for the n-th cluster with count endpoints, in slices of at most 100.
// The first endpoint alternates between two addresses.
func flipSized(name ClusterName, n, count int) *flip {
	c := newCluster(name)
	for s := 0; s*100 < count; s++ {
		var eps []Endpoint
		for i := range min(100, count-s*100) {
			ip := netip.AddrFrom4([4]byte{10, byte(n), byte(s), byte(i)})
			eps = append(eps, Endpoint{
				Addr: netip.AddrPortFrom(ip, 0),
				Kind: Pod,
				Node: "n",
				Zone: fmt.Sprint("z", i%3),
				Twin: fmt.Sprintf("web-%d-%d", s, i),
			})
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

// BenchmarkSchedule measures the postponement of one of 5,000 services that change with time.
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

// BenchmarkChangedDuringWalks measures Changed for a watched service among 50,000 others while
// another goroutine walks over all of them. The benchmark reports the 99th percentile and the
// maximum of the latency of a change.
func BenchmarkChangedDuringWalks(b *testing.B) {
	const services = 50_000
	for _, x := range []struct {
		name string
		walk func(context.Context, *Table)
	}{
		{"none", func(ctx context.Context, _ *Table) { <-ctx.Done() }},
		{"Impact", func(ctx context.Context, t *Table) { _, _ = t.Impact(ctx, "c1", Withdrawn) }},
		{"Definitions", func(_ context.Context, t *Table) { t.Definitions() }},
		{"Unserved", func(_ context.Context, t *Table) { t.Unserved() }},
	} {
		b.Run(x.name, func(b *testing.B) {
			table, id := NewTable(Options{}), ServiceID{"ns", "web"}
			table.Link("c0", Ready, newFlip(0, 1))
			table.Link(Local, Ready, newCluster(Local))
			for i := range services {
				of := ServiceID{fmt.Sprint("ns-", i%500), fmt.Sprint("web-", i)}
				table.Define(of, &Definition{Members: []Member{{Local, of}}})
			}
			table.Define(id, &Definition{Federated: true, Members: []Member{{"c0", id}}})
			w := table.Watch(Key{id, 80, Client{}})
			defer w.Close()
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for ctx.Err() == nil {
					x.walk(ctx, table)
				}
			}()
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				table.Changed("c0", id, time.Time{})
				took = append(took, time.Since(began))
			}
			cancel()
			<-ended
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
		})
	}
}

// BenchmarkOwnerChangedAmongMany measures the assignment and release of a local Pod's address,
// among 5,000 watched services. Either no service, one, two, a hundred or all services have the
// address.
func BenchmarkOwnerChangedAmongMany(b *testing.B) {
	table, h := crowdedTable(b)
	for offeredBy, addr := range map[string]string{
		"none": "10.200.0.1",
		"one":  "10.16.0.1",
		"two":  "10.2.0.1",
		"100":  "10.3.0.1",
		"all":  "10.4.0.1",
	} {
		b.Run("services="+offeredBy, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.own(table, addr, "Pod ns/p")
				h.own(table, addr, "")
			}
		})
	}
}

const crowd = 5000

// crowdedTable returns a table with 5,000 watched services, which have a member in a linked
// cluster. Each service has ten endpoints of its own. Two services have 10.2.0.1, a hundred have
// 10.3.0.1, and all have 10.4.0.1.
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
