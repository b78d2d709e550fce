package federation

import (
	"fmt"
	"slices"
	"testing"
)

// BenchmarkDefine: the definition of a service of 100 members with 1,000 endpoints each,
// watched at 20 ports, changes.
func BenchmarkDefine(b *testing.B) {
	const members, ports = 100, 20
	table, id := NewTable(Options{}), ServiceID{"ns", "web"}
	d := &Definition{Federated: true}
	for n := range members {
		c := ClusterName(fmt.Sprint("c", n))
		source := newCluster(c)
		many(source, n, 10)
		share := source.Reader(id, 80).Read()
		table.Link(c, Ready, &flip{share: [2]Share{share, share}})
		d.Members = append(d.Members, Member{c, id})
	}
	table.Define(id, d)
	for p := range ports {
		defer table.Watch(Key{Service: id, Port: uint16(80 + p)}).Close()
	}
	without := func(n int) *Definition {
		return &Definition{Members: slices.Delete(slices.Clone(d.Members), n, n+1), Federated: true}
	}
	reversed := &Definition{Members: slices.Clone(d.Members), Federated: true}
	slices.Reverse(reversed.Members)
	for name, other := range map[string]*Definition{"last": without(members - 1), "first": without(0), "order": reversed, "none": {Federated: true}} {
		b.Run("differs="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				table.Define(id, other)
				table.Define(id, d)
			}
		})
	}
}
