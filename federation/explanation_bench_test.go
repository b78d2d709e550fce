package federation

import (
	"net/netip"
	"testing"
)

// BenchmarkExplain explains a service of 10,000 endpoints in two clusters, 100 to a slice, and
// BenchmarkExplain/inquire is the part of it that holds the service's lock.
func BenchmarkExplain(b *testing.B) {
	table := NewTable(Options{})
	d := &Definition{Federated: true}
	for i, name := range []ClusterName{Local, "east"} {
		c := newCluster(name)
		for s := range 50 {
			var eps []Endpoint
			for k := range 100 {
				eps = append(eps, Endpoint{Kind: Pod, Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(s), byte(k)}), 0)})
			}
			c.set(webID, string(rune('a'+s)), eps...)
		}
		table.Link(name, Ready, c)
		d.Members = append(d.Members, Member{name, webID})
	}
	table.Define(webID, d)
	k := Key{Service: webID, Port: 80}
	defer table.Watch(k).Close()
	q := Question{Key: k, Limit: 10_000}
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if x, ok := table.Explain(b.Context(), q); !ok || x.Verdicts[Served] != 10_000 {
				b.Fatal(x)
			}
		}
	})
	b.Run("inquire", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := table.watched[webID].inquire(q); !ok {
				b.Fatal("not watched")
			}
		}
	})
}
