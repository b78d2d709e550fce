package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/decode"
)

type workloadOption = func(*decode.ExternalWorkload)

func workloadAnnotation(key, value string) workloadOption {
	return func(o *decode.ExternalWorkload) { o.Annotations = with(o.Annotations, key, value) }
}

func workloadOwner(kind, name string) workloadOption {
	return func(o *decode.ExternalWorkload) {
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{Kind: kind, Name: name})
	}
}

// TestWorkloadFacts checks how fields of an ExternalWorkload that TestJoinReference does not vary
// affect its endpoint.
func TestWorkloadFacts(t *testing.T) {
	const sa, id = "external_workload:v ", "twin=workload/ns/v uri=spiffe://root/v sni=v.example meshed"
	type options = []workloadOption
	for _, x := range []struct {
		name    string
		port    uint16
		options options
		want    string
	}{
		{"annotation in place of the defaults", 3306, options{workloadAnnotation(opaqueAnnotation, "")},
			sa + id + " inbound=4143"},
		{"skipped ports are ignored", 8080, options{workloadAnnotation(skipAnnotation, "8080")},
			sa + id + " inbound=4143"},
		{"impossible proxy's port", 8080, options{func(o *decode.ExternalWorkload) {
			o.Spec.Ports[1] = decode.PortSpec{Name: proxyPortName, Port: 70000}
		}}, sa + id + " inbound=4143"},
		{"two owners", 8080, options{workloadOwner("A", "a"), workloadOwner("B", "b")}, sa + id + " inbound=4143"},
		{"owner whose kind is a label of Isthmus", 8080, options{workloadOwner("External_Workload", "x")},
			sa + id + " inbound=4143"},
		{"no identity", 8080, options{func(o *decode.ExternalWorkload) { o.Spec.MeshTLS = decode.MeshTLS{} }},
			sa + "twin=workload/ns/v meshed inbound=4143"},
	} {
		t.Run(x.name, func(t *testing.T) {
			v := aWorkload("v", "http=8080", "admin=9090")
			for _, f := range x.options {
				f(v)
			}
			w := newWorld(t, nil)
			w.put(aService("web"), aSlice("s", "web", "http=8080", "10.0.0.1 ew=v"), v)
			e := w.read("web", x.port).Slices[0].Endpoints[0]
			if got, want := describe(e),
				fmt.Sprintf("10.0.0.1:%d namespace:ns service:web %s", x.port, x.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestWorkloadOfTheSlice checks that an endpoint of a slice refers to an ExternalWorkload of the
// slice's namespace. Endpoints objects cannot refer to ExternalWorkloads.
func TestWorkloadOfTheSlice(t *testing.T) {
	w := newWorld(t, nil)
	l := aSlice("s", "web", "http=8080", "10.0.0.1 ew=v")
	l.Endpoints[0].TargetRef.Namespace = "other"
	w.put(aService("web", "http=80"), l, aWorkload("v"))
	if got := addrs(w.read("web", 80)); got != "10.0.0.1:8080" {
		t.Errorf("got %q", got)
	}
	w = newWorld(t, func(c *Config) { c.Rules.EndpointSlices = false })
	w.put(
		aService("web", "http=80"),
		aWorkload("v"),
		&coreEndpoints{ObjectMeta: inNS("web"), Subsets: []coreEndpointSubset{{
			Ports: []corev1.EndpointPort{{Name: "http", Port: 8080}},
			Addresses: []corev1.EndpointAddress{
				{IP: "10.0.0.1", TargetRef: &corev1.ObjectReference{Kind: "ExternalWorkload", Name: "v"}},
				{IP: "10.0.0.2"},
			},
		}}},
	)
	if got := addrs(w.read("web", 80)); got != "10.0.0.2:8080" {
		t.Errorf("got %q", got)
	}
}
