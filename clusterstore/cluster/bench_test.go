package cluster

import (
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"isthmus/federation"
)

// crowd returns a cluster that has a Service web with n slices of 100 meshed Pods each.
func crowd(b *testing.B, n int) *world {
	w := newWorld(b, nil)
	w.put(aService("web", "http=80"), metadataOf("ReplicaSet", "web-abc", "Deployment", "web"))
	for s := range n {
		w.put(crowdSlice(s, 100))
		for i := range 100 {
			w.put(
				aPod(
					fmt.Sprintf("web-abc-%d-%d", s, i),
					meshed,
					ownedBy("ReplicaSet", "web-abc"),
					podLabel(templateHashLabel, "abc"),
				),
			)
		}
	}
	return w
}

func crowdSlice(s, n int) *discoveryv1.EndpointSlice {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("10.1.%d.%d pod=web-abc-%d-%d zone=z%d", s, i, s, i, i%3))
	}
	return aSlice(fmt.Sprintf("s%03d", s), "web", "http=8080", list...)
}

// BenchmarkRead removes and adds one endpoint of a Service with up to 50 slices of 100 endpoints.
func BenchmarkRead(b *testing.B) {
	for _, slices := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("slices=%d", slices), func(b *testing.B) {
			w := crowd(b, slices)
			reader := w.Reader(federation.ServiceID{Namespace: "ns", Name: "web"}, 80)
			reader.Read()
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				n++
				w.put(crowdSlice(slices/2, 99+n%2))
				b.StartTimer()
				if reader.Read().State != federation.Present {
					b.Fatal("the Service is missing")
				}
			}
		})
	}
}

// BenchmarkMemory measures the memory of 5,000 Pods with and without slices.
func BenchmarkMemory(b *testing.B) {
	for _, slices := range []int{0, 50} {
		b.Run(fmt.Sprintf("slices=%d", slices), func(b *testing.B) {
			for b.Loop() {
				before := heap()
				w := newWorld(b, nil)
				for i := range 5000 {
					rs := fmt.Sprintf("web-%d-5f79f964bc", i/3)
					w.put(
						aPod(
							fmt.Sprintf("%s-%05d", rs, i),
							meshed,
							ownedBy("ReplicaSet", rs),
							podLabel(templateHashLabel, rs[len(rs)-10:]),
						),
					)
				}
				for s := range slices {
					o := crowdSlice(s, 100)
					for i := range o.Endpoints {
						n := s*100 + i
						o.Endpoints[i].TargetRef.Name = fmt.Sprintf("web-%d-5f79f964bc-%05d", n/3, n)
					}
					w.put(o)
				}
				b.ReportMetric(float64(heap()-before)/5000, "B/pod")
				runtime.KeepAlive(w)
			}
		})
	}
}

// BenchmarkMemoryLabels measures the memory of 5,000 Pods with realistic labels and named ports.
// The Pods belong to Deployments with 3 replicas, to StatefulSets with 100 replicas, or to Jobs
// with one Pod. Each Pod of a StatefulSet has labels of its own.
func BenchmarkMemoryLabels(b *testing.B) {
	for _, kind := range []string{"ReplicaSet", "StatefulSet", "Job"} {
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				w := newWorld(b, nil)
				for i := range 5000 {
					w.put(realPod(kind, i))
				}
				b.ReportMetric(float64(heap()-before)/5000, "B/pod")
				runtime.KeepAlive(w)
			}
		})
	}
}

// TestMemoryLabels checks that such Pods without slices take a bounded amount of memory. Once they
// are deleted, only the space of maps may remain. The Pods of Jobs have unique labels.
func TestMemoryLabels(t *testing.T) {
	for kind, most := range map[string]int64{"ReplicaSet": 400, "StatefulSet": 400, "Job": 600} {
		before := heap()
		w := newWorld(t, nil)
		for i := range 5000 {
			w.put(realPod(kind, i))
		}
		if each := (heap() - before) / 5000; each > most {
			t.Errorf("a Pod of a %s takes %d bytes", kind, each)
		}
		for i := range 5000 {
			w.del(realPod(kind, i))
		}
		left := (heap() - before) / 5000
		t.Logf("%s: %d bytes left", kind, left)
		if left > 100 {
			t.Errorf("a deleted Pod of a %s leaves %d bytes", kind, left)
		}
		runtime.KeepAlive(w)
	}
}

func realPod(kind string, i int) *corev1.Pod {
	app, owner := fmt.Sprintf("web-%d", i/3), fmt.Sprintf("web-%d-5f79f964bc", i/3)
	switch kind {
	case "StatefulSet":
		app, owner = fmt.Sprintf("db-%d", i/100), fmt.Sprintf("db-%d", i/100)
	case "Job":
		app, owner = fmt.Sprintf("backup-%d", i/100), fmt.Sprintf("backup-%d-%d", i/100, 29_000_000+i)
	}
	o := aPod(
		fmt.Sprintf("%s-%05d", owner, i),
		meshed,
		ownedBy(kind, owner),
		podLabel("app.kubernetes.io/name", app),
		podLabel(
			"app.kubernetes.io/instance",
			app,
		),
		podLabel("app.kubernetes.io/version", "1.2.3"),
		podLabel("linkerd.io/workload-ns", "ns"),
		namedPort("http", 8080, 0),
		namedPort("admin", 9990, 0),
	)
	o.Spec.ServiceAccountName = app
	switch kind {
	case "StatefulSet":
		podLabel("statefulset.kubernetes.io/pod-name", o.Name)(o)
		podLabel("apps.kubernetes.io/pod-index", fmt.Sprint(i%100))(o)
		podLabel("controller-revision-hash", owner+"-6b7c8d9f")(o)
	case "Job":
		for _, prefix := range []string{"", "batch.kubernetes.io/"} {
			podLabel(prefix+"job-name", owner)(o)
			podLabel(prefix+"controller-uid", fmt.Sprintf("0f5d3c1e-6a0b-4c1d-9e8f-%012x", i))(o)
		}
	default:
		podLabel(templateHashLabel, "5f79f964bc")(o)
	}
	return o
}

// heap returns the size of the heap in use. The runtime drops unused unique handles in a goroutine.
// heap therefore collects garbage until two sizes in a row are equal.
func heap() int64 {
	const rounds, noise = 100, 1 << 10
	for round, before := 0, int64(math.MaxInt64); ; round++ {
		runtime.GC()
		runtime.Gosched()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		now := int64(m.HeapAlloc)
		if round == rounds || before-now < noise && now-before < noise {
			return now
		}
		before = now
	}
}

// BenchmarkWalks measures frequent walks over a few of 50,000 Services, which hold the cache's
// lock.
//
//   - Each reconcile of a link walks over the gateways of a linked cluster.
//   - Each probe of a gateway looks up the address among the objects of the local cluster.
//   - A third walk is over all EndpointSlices that Isthmus manages.
func BenchmarkWalks(b *testing.B) {
	const services = 50_000
	fill := func(w *world) {
		for i := range services {
			s := aService(fmt.Sprintf("web-%d", i), "http=80")
			s.Spec.ExternalIPs = []string{fmt.Sprintf("192.0.%d.%d", i>>8&255, i&255)}
			w.put(s)
		}
	}
	linked := newWorld(b, nil)
	fill(linked)
	linked.put(chartGateway())
	b.Run("Gateways", func(b *testing.B) {
		for b.Loop() {
			if list, _ := linked.Gateways(); len(list) != 1 {
				b.Fatal(list)
			}
		}
	})
	local := newWorld(b, withAddresses)
	fill(local)
	b.Run("AssignedTo", func(b *testing.B) {
		for b.Loop() {
			if local.AssignedTo(netip.MustParseAddr("203.0.113.1")) != "" {
				b.Fatal("an address belongs to no object")
			}
		}
	})
	b.Run("AllManagedSlices", func(b *testing.B) {
		for b.Loop() {
			local.AllManagedSlices()
		}
	})
}
