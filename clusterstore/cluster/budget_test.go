package cluster

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/follow"
)

// TestBudget compares the memory that counts against the cap with the heap. The count is never less
// than the heap, even for objects that are made to take much memory. For an ordinary cluster, the
// count is at most twice the heap. TestBudget in local/exports compares the memory of exports.
func TestBudget(t *testing.T) {
	for name, tt := range map[string]struct {
		fill  func(*world)
		large bool // the count may be more than twice the heap
	}{
		"ordinary": {fill: func(w *world) {
			for s := range 1000 {
				web := fmt.Sprintf("web-%d", s)
				w.put(aService(web, "http=80"), metadataOf("ReplicaSet", web+"-5f79f964bc", "Deployment", web))
				var list []string
				for i := range 5 {
					o := realPod("ReplicaSet", 5*s+i)
					o.OwnerReferences[0].Name = web + "-5f79f964bc"
					w.put(o)
					list = append(list, fmt.Sprintf("10.%d.%d.%d pod=%s zone=z%d", s/250, s%250, i, o.Name, i%3))
				}
				w.put(aSlice(web+"-x", web, "http=8080", list...))
			}
		}},
		"keys of labels": {large: true, fill: func(w *world) {
			for i := range 5000 {
				w.put(aPod(fmt.Sprint("p", i), podLabel(strings.Repeat("k", 300)+fmt.Sprint(i), "v")))
			}
		}},
		"targets": {large: true, fill: func(w *world) {
			for s := range 50 {
				var list []string
				for i := range 200 {
					list = append(list, fmt.Sprintf("10.1.%d.%d pod=p-%d-%d zone=z-%d-%d", s, i, s, i, s, i))
				}
				w.put(aSlice(fmt.Sprint("s", s), fmt.Sprint("web", s), "http=8080", list...))
			}
		}},
		"unready": {large: true, fill: func(w *world) {
			for s := range 50 {
				var list []string
				for i := range 200 {
					list = append(list,
						fmt.Sprintf("10.1.%d.%d pod=p-%d-%d zone=z-%d-%d node=n-%d-%d unready", s, i, s, i, s, i, s, i))
				}
				w.put(aSlice(fmt.Sprint("s", s), fmt.Sprint("web", s), "http=8080", list...))
			}
		}},
		"small objects": {large: true, fill: func(w *world) {
			for i := range 5000 {
				w.put(aService(fmt.Sprint("s", i)),
					metadataOf("ReplicaSet", fmt.Sprint("r", i), "Deployment", fmt.Sprint("d", i)))
			}
		}},
		"Nodes": {large: true, fill: func(w *world) {
			for i := range 10000 {
				w.put(aNode(fmt.Sprint("n", i), fmt.Sprint("r", i)))
			}
		}},
		"Servers": {large: true, fill: func(w *world) {
			for i := range 1000 {
				server := aServer(fmt.Sprint("server", i), "8080", fmt.Sprint("app=app", i))
				server.Namespace = fmt.Sprint("ns", i)
				p := aPod(fmt.Sprint("p", i), podLabel("app", fmt.Sprint("app", i)))
				p.Namespace = server.Namespace
				w.put(server, p)
			}
		}},
		"Pods of a Server": {large: true, fill: func(w *world) {
			w.put(aServer("server", "8080", "app"))
			for i := range 5000 {
				w.put(aPod(fmt.Sprint("p", i), podLabel("app", fmt.Sprint("app", i))))
			}
		}},
		"names of ports": {large: true, fill: func(w *world) {
			for i := range 2000 {
				w.put(aPod(fmt.Sprint("p", i), func(o *corev1.Pod) {
					for n := range 10 {
						o.Spec.Containers[0].Ports = append(o.Spec.Containers[0].Ports,
							corev1.ContainerPort{Name: fmt.Sprint("n", i, "-", n), ContainerPort: int32(n + 1)})
					}
				}))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := follow.NewMemoryCap(56 << 20)
			before := heap()
			w := newWorld(t, func(c *Config) { c.Memory = b; exportingAll(new(int))(c) })
			tt.fill(w)
			took, used := int64(heap()-before), b.Usage().Used
			runtime.KeepAlive(w)
			t.Logf("%d KiB, estimated at %d KiB: %d %%", took>>10, used>>10, 100*used/took)
			if took > used {
				t.Errorf("%d KiB are estimated at %d", took>>10, used>>10)
			}
			if !tt.large && used > 2*took {
				t.Errorf("an ordinary cluster of %d KiB is estimated at %d", took>>10, used>>10)
			}
		})
	}
}

// TestSizeFields fails if a cached type has a new field that its size may omit. If a linked cluster
// has the field, count it in the size. Then add it here.
func TestSizeFields(t *testing.T) {
	for typ, want := range map[reflect.Type]string{
		reflect.TypeFor[pod]():          "key facts owner slices",
		reflect.TypeFor[compactedPod](): "facts location selected evaluated",
		reflect.TypeFor[podFacts]():     "template node traits",
		reflect.TypeFor[template](): "owner serviceAccount controlPlane opaque skip proxy labels " +
			"ports identity invalid",
		reflect.TypeFor[podSet]():       "facts pods by opaque lacks",
		reflect.TypeFor[owner]():        "key parent pods",
		reflect.TypeFor[ownerRef]():     "kind name",
		reflect.TypeFor[serviceEntry](): "spec slices",
		reflect.TypeFor[Service](): "ExternalName NodeLocal Ports leads exported ClusterIPs " +
			"External OpaquePorts Labels Annotations selecting",
		reflect.TypeFor[ServicePort](): "Name Number",
		reflect.TypeFor[Gateway](): "Service IPs Names Port Identity Probe More NodePort " +
			"NodeProbe",
		reflect.TypeFor[slice]():        "service mirror subsets managed key stamp changed",
		reflect.TypeFor[mirror]():       "cluster identity remoteName",
		reflect.TypeFor[subset]():       "ports addresses ready",
		reflect.TypeFor[slicePort]():    "name number",
		reflect.TypeFor[address]():      "ip target facts hostname pod",
		reflect.TypeFor[addressFacts](): "zone zones nodes node why leftOut other text",
		reflect.TypeFor[node]():         "zone region addresses",
		reflect.TypeFor[serverFacts]():  "spec pods workloads name number invalid",
	} {
		var fields []string
		for i := range typ.NumField() {
			fields = append(fields, typ.Field(i).Name)
		}
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("%v has the fields %q, not %q", typ, got, want)
		}
	}
}
