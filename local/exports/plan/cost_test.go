package plan

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// forgedWorlds fill one namespace with forged objects. Each function takes the number of objects.
var forgedWorlds = []struct {
	name string
	size int
	make func(s *sim, n int)
}{
	{"objects of a cluster each", 5000, func(s *sim, n int) {
		for i := range n {
			ghost := fmt.Sprint("ghost", i)
			s.Services[ID{"evil", "x-" + ghost}] = s.forge("x-"+ghost, ghost)
		}
	}},
	{"objects of 30,000 members", 100, func(s *sim, n int) {
		for i := range n {
			var list strings.Builder
			name := fmt.Sprint("x", i)
			for k := range 30_000 {
				fmt.Fprintf(&list, "%s@%d,", name, k)
			}
			s.forgeFederated(name, "", list.String())
		}
	}},
	{"members of an object, its ports and conditions", 50_000, func(s *sim, n int) {
		var list strings.Builder
		for k := range n {
			fmt.Fprintf(&list, "x@east%d,", k)
		}
		o := s.forgeFederated("x", "x", list.String())
		for i := range n {
			o.Ports = append(o.Ports, Port{Protocol: "TCP", Number: uint16(i)})
		}
	}},
	{"exports of the local cluster", 5000, func(s *sim, n int) {
		for i := range n {
			e := export(fmt.Sprint("m", i), "federated import", "http=80")
			e.Namespace, e.Service.Namespace = "evil", "evil"
			s.of("").Exports = append(s.of("").Exports, e)
		}
	}},
	{"ServiceExports of the local cluster, without Services", 100_000, func(s *sim, n int) {
		for i := range n {
			id := ID{"evil", fmt.Sprint("m", i)}
			e := Export{ID: id, Exported: &ServiceExport{UID: fmt.Sprint(i), Created: start}}
			s.of("").Exports = append(s.of("").Exports, e)
		}
	}},
	{"exports of a linked cluster, with names that are not UTF-8", 100_000, func(s *sim, n int) {
		for i := range n {
			e := export(fmt.Sprint("m", i, strings.Repeat("\xff", i%2)), "mirror federated import", "http=80")
			e.Namespace, e.Service.Namespace = "evil", "evil"
			e.Service.Labels["team"], e.Service.Annotations["retry.linkerd.io/http"] = "\xff", "\xff"
			s.of("east").Exports = append(s.of("east").Exports, e)
		}
	}},
	{"ports of exports", 20_000, func(s *sim, n int) {
		for i := range 5 {
			e := export(fmt.Sprint("m", i), "federated mirror import", "http=80")
			e.Namespace, e.Service.Namespace = "evil", "evil"
			for k := range n {
				p := Port{Protocol: "TCP", Number: uint16(k), Name: strings.Repeat("\xff", k%2)}
				e.Service.Ports = append(e.Service.Ports, p)
			}
			s.of("east").Exports = append(s.of("east").Exports, e)
			s.of("").Exports = append(s.of("").Exports, e)
		}
	}},
}

// TestCostGrowsWithSize checks that the memory that a plan allocates grows no faster than the
// number of forged objects. The test also checks that the memory that the plan retains is bounded.
// BenchmarkForged measures the full sizes.
func TestCostGrowsWithSize(t *testing.T) {
	for _, w := range forgedWorlds {
		size := w.size / 10
		part, _ := costOfPlan(w.make, size/4)
		all, held := costOfPlan(w.make, size)
		t.Logf(
			"%d %s: %d KiB, of which %d KiB are held; a quarter of them %d KiB",
			size,
			w.name,
			all>>10,
			held>>10,
			part>>10,
		)
		if all > 8*part {
			t.Errorf(
				"%d %s: a plan allocates %d KiB, and with a quarter of them %d KiB", size, w.name, all>>10, part>>10,
			)
		}
		if held > 50<<20 {
			t.Errorf("%d %s: a plan retains %d MiB", size, w.name, held>>20)
		}
	}
}

// costOfPlan returns how many bytes a plan of a world with n forged objects allocates and retains.
// Only the retained bytes are exact with the race detector, which empties pools.
func costOfPlan(forge func(*sim, int), n int) (allocated, held int64) {
	s := newSim(cluster(""), cluster("east", export("web", "mirror", "http=80")))
	s.Namespaces["evil"] = true
	forge(s, n)
	_, s.memory = Make(s.World, Memory{})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	plan, memory := Make(s.World, s.memory)
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(plan)
	runtime.KeepAlive(memory)
	runtime.KeepAlive(s)
	return int64(after.TotalAlloc - before.TotalAlloc), int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

func BenchmarkForged(b *testing.B) {
	for _, w := range forgedWorlds {
		b.Run(w.name, func(b *testing.B) {
			s := newSim(cluster(""), cluster("east", export("web", "mirror", "http=80")))
			s.Namespaces["evil"] = true
			w.make(s, w.size)
			_, s.memory = Make(s.World, Memory{})
			b.ReportAllocs()
			for b.Loop() {
				Make(s.World, s.memory)
			}
		})
	}
}

// BenchmarkWritten makes plans of a world with 5,000 written Services in which nothing changes.
func BenchmarkWritten(b *testing.B) {
	s := newSim()
	for l := range 5 {
		c := newSim(cluster(fmt.Sprint("link-", l))).Clusters[0]
		for i := range 1000 {
			c.Exports = append(c.Exports, s.in(i/200+10*l, fmt.Sprintf("m%d", i), "mirror"))
		}
		s.Clusters = append(s.Clusters, c)
	}
	for s.pass() {
	}
	b.ReportAllocs()
	for b.Loop() {
		_, s.memory = Make(s.World, s.memory)
	}
}

// BenchmarkImported makes plans of a world with 5,000 written ServiceImports in which nothing
// changes. The leader has not written anything yet.
func BenchmarkImported(b *testing.B) {
	s := newSim(cluster(""))
	own := s.of("")
	for n := range 25 {
		for i := range 200 {
			own.Exports = append(own.Exports, s.in(n, fmt.Sprintf("m%d", i), "import"))
		}
	}
	for s.pass() {
		for i := range s.last.Exports {
			e := &s.last.Exports[i]
			e.Have.Conditions, _ = e.Over(e.Have.Conditions)
		}
	}
	s.Attempt = func(string, ID) Attempt { return Attempt{} }
	b.ReportAllocs()
	for b.Loop() {
		_, s.memory = Make(s.World, s.memory)
	}
}
