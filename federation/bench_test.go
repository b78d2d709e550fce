package federation

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// many returns endpoints of the n-th cluster, k slices of 100.
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

// flip is a Source that returns prepared slices, one of which alternates, so that
// the benchmarks measure the table and not a source.
type flip struct {
	share [2]Share
	n     int
}

func (f *flip) State(ServiceID) ServiceState            { return Present }
func (f *flip) Declares(ServiceID, uint16) bool         { return true }
func (f *flip) Reader(id ServiceID, port uint16) Reader { return f }
func (f *flip) Read() Share                             { f.n++; return f.share[f.n%2] }

func newFlip(n, k int) *flip { return newFlipOf(ClusterName(fmt.Sprint("c", n)), n, k) }

func newFlipOf(name ClusterName, n, k int) *flip {
	c := newCluster(name)
	many(c, n, k)
	r := c.Reader(ServiceID{"ns", "web"}, 80)
	f := &flip{}
	f.share[0] = r.Read()
	c.set(ServiceID{"ns", "web"}, "s000", Endpoint{Addr: netip.MustParseAddrPort(fmt.Sprintf("10.%d.250.1:0", n))})
	c.services[ServiceID{"ns", "web"}].slices["s000"] = append(c.services[ServiceID{"ns", "web"}].slices["s000"], flipped(f.share[0].Slices[0])...)
	f.share[1] = r.Read()
	return f
}

// flipped returns all endpoints of a slice but the first.
func flipped(s *Slice) (eps []Endpoint) {
	for _, e := range s.Endpoints[1:] {
		eps = append(eps, *e)
	}
	return eps
}

// BenchmarkChanged: one endpoint of one cluster changes, with different numbers of
// endpoints, clusters and keys.
func BenchmarkChanged(b *testing.B) {
	for _, x := range []struct{ clusters, slices, views int }{{5, 10, 1}, {5, 10, 4}, {1, 1, 1}, {1, 10, 1}, {1, 100, 1}, {10, 10, 1}, {50, 10, 1}} {
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
