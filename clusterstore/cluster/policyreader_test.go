package cluster

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/crd"
	"isthmus/federation"
)

// manyPorts is a namespace with a Service of Pods, each with labels of its own, and with
// Servers that make one odd port each opaque for them all.
func manyPorts(t testing.TB, pods, servers int) *world {
	w := newWorld(t, nil)
	var list []string
	for i := range pods {
		w.put(aPod(fmt.Sprint("p", i), podLabel("app", "web"), podLabel("pod", fmt.Sprint(i))))
		list = append(list, fmt.Sprintf("10.0.%d.%d pod=p%d", i/250, i%250, i))
	}
	w.put(aService("web"), aSlice("s", "web", "http=8080", list...))
	for i := range servers {
		w.put(aServer(fmt.Sprintf("s%04d", i), fmt.Sprint(1+2*i), "", forAll))
	}
	return w
}

// forAll makes a Server select all Pods.
var forAll = odd(func(s *crd.ServerSpec) { s.PodSelector = &metav1.LabelSelector{} })

// TestAnyPortOfManyServers: Servers make many ports opaque, each of Pods with labels of
// their own. A reader of undeclared ports asks once for each Pod, and all Pods share the
// list of ports: once it is known, reading makes no list of its own for any of them.
func TestAnyPortOfManyServers(t *testing.T) {
	const pods, servers = 20, 1000
	w := manyPorts(t, pods, servers)
	read := func() federation.Share {
		return w.Reader(federation.ServiceID{Namespace: "ns", Name: "web"}, federation.AnyPort).Read()
	}
	read()
	if n := len(w.state.policies["ns"].rules.answers); n != pods {
		t.Errorf("%d answers are remembered", n)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	share := read()
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / pods; n > 4*servers { // what a list has at least
		t.Errorf("reading takes %d bytes for each Pod", n)
	}
	list := share.Slices[0].Endpoints
	for _, port := range []uint16{1, 3, 2*servers - 1, 2, 2 * servers, 2*servers + 1} {
		if got, want := list[0].At(port).Opaque, port%2 == 1 && port < 2*servers; got != want {
			t.Errorf("port %d is opaque: %v", port, got)
		}
	}
	for _, e := range list {
		if e.Ports.Opaque != list[0].Ports.Opaque {
			t.Errorf("%v has other ports", e.Addr)
		}
	}
}

// BenchmarkAnyPort: Servers make 5,000 ports opaque of Pods with labels of their own. One
// changes, and a new reader of undeclared ports reads: locked-ms is how long it holds
// the cluster's lock, and B-kept is what it and the rules remember.
func BenchmarkAnyPort(b *testing.B) {
	for _, pods := range []int{100, 1000} {
		b.Run(fmt.Sprint("pods=", pods), func(b *testing.B) {
			w := manyPorts(b, pods, 5000)
			n, locked, kept := 0, time.Duration(0), int64(0)
			b.ReportAllocs()
			for b.Loop() {
				n++
				w.put(aServer("s0000", fmt.Sprint(2+2*(n%2)), "", forAll))
				b.StopTimer()
				before := heap()
				b.StartTimer()
				r := w.Reader(federation.ServiceID{Namespace: "ns", Name: "web"}, federation.AnyPort).(*reader)
				for more := true; more; more = r.policy.evaluate() {
					began := time.Now()
					r.readOnce()
					locked += time.Since(began)
				}
				r.policy.views = nil
				b.StopTimer()
				kept += heap() - before
				runtime.KeepAlive(r)
				b.StartTimer()
			}
			b.ReportMetric(float64(locked.Milliseconds())/float64(n), "locked-ms/op")
			b.ReportMetric(float64(kept)/float64(n)/float64(pods), "B-kept/pod")
		})
	}
}
