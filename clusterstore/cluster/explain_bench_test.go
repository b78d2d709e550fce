package cluster

import (
	"testing"

	"isthmus/federation"
)

// BenchmarkExplain explains 10,000 addresses in slices of 100.
func BenchmarkExplain(b *testing.B) {
	w := newWorld(b, nil)
	w.put(aService("web", "http=80"))
	for s := range 100 {
		w.put(crowdSlice(s, 100))
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for range w.Explain(federation.ServiceID{Namespace: "ns", Name: "web"}, 80) {
			n++
		}
		if n != 10_000 {
			b.Fatal(n)
		}
	}
}
