package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/clusterstore/decode"
)

// namedPort gives the Pod's first container a port. If hostPort is 0, there is no host port.
func namedPort(name string, port, hostPort int32) func(*corev1.Pod) {
	return func(o *corev1.Pod) {
		o.Spec.Containers[0].Ports = append(
			o.Spec.Containers[0].Ports,
			corev1.ContainerPort{Name: name, ContainerPort: port, HostPort: hostPort},
		)
	}
}

// sidecarPort gives a Pod a native sidecar with a port.
func sidecarPort(name string, port int32) func(*corev1.Pod) {
	return func(o *corev1.Pod) {
		o.Spec.InitContainers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: name, ContainerPort: port}}}}
	}
}

func in(namespace string) func(*decode.Server) {
	return func(o *decode.Server) { o.Namespace = namespace }
}

func odd(change func(*decode.ServerSpec)) func(*decode.Server) {
	return func(o *decode.Server) { change(&o.Spec) }
}

// opaqueAt lists the opaque addresses of the Service web.
func (w *world) opaqueAt(port uint16) string {
	var list []string
	for _, l := range w.read("web", port).Slices {
		for _, e := range l.Endpoints {
			if e.Opaque {
				list = append(list, e.Addr.String())
			}
		}
	}
	return strings.Join(list, " ")
}

// TestServers checks the ports of Pods that Servers make opaque in situations that
// TestJoinReference does not produce.
//
// Pod p has the labels app=web and tier=db, and the ports http (8080, host port 8888) and side
// (4000). Pod q has neither. Undeclared ports are requested by number.
func TestServers(t *testing.T) {
	const p, q, none = "10.0.0.1:%d", "10.0.0.2:%d", ""
	for _, x := range []struct {
		name    string
		port    uint16
		servers []*decode.Server
		want    string
	}{
		{"by name, on the node", 8888, []*decode.Server{aServer("s", "http", "app=web")}, p},
		{"by name, in a sidecar", 4000, []*decode.Server{aServer("s", "side", "app=web")}, p},
		{"a number as a name", 8080,
			[]*decode.Server{aServer("s", "8080", "app=web",
				odd(func(s *decode.ServerSpec) { s.Port = intstr.FromString("8080") }))}, none},
		{"two labels", 8080, []*decode.Server{aServer("s", "8080", "app=web,tier=db")}, p},
		{"expressions", 8080, []*decode.Server{aServer("s", "8080", "app in (web,x),tier,!other")}, p},
		{"opaque in other letters", 8080, []*decode.Server{aServer("s", "8080", "app=web", protocol("Opaque"))}, none},
		{"after a Server of another port", 8080,
			[]*decode.Server{aServer("a", "4000", "app=web"), aServer("s", "8080", "app=web")}, p},
		{"no protocol", 8080, []*decode.Server{aServer("s", "8080", "app=web", protocol(""))}, none},
	} {
		for _, first := range []string{"Servers", "Pods"} {
			t.Run(x.name+", first the "+first, func(t *testing.T) {
				w := newWorld(t, nil)
				rest := []metav1.Object{
					aService("web"),
					aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2 pod=q"),
					aPod(
						"p",
						podLabel("app", "web"),
						podLabel("tier", "db"),
						namedPort("http", 8080, 8888),
						sidecarPort("side", 4000),
					),
					aPod("q"),
				}
				if first == "Pods" {
					w.put(rest...)
					if got := w.opaqueAt(x.port); got != "" {
						t.Fatalf("without Servers: %q", got)
					}
				}
				for _, s := range x.servers {
					w.put(s)
				}
				if first == "Servers" {
					w.put(rest...)
				}
				want := strings.ReplaceAll(x.want, "%d", fmt.Sprint(x.port))
				if got := w.opaqueAt(x.port); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				for _, s := range x.servers {
					w.del(s)
				}
				if got := w.opaqueAt(x.port); got != "" {
					t.Errorf("without Servers again: %q", got)
				}
				if n := len(w.cache.policies.byNamespace); n != 0 {
					t.Errorf("%d namespaces with Servers are still cached", n)
				}
			})
		}
	}
}

// TestServersOfTheirNamespace checks a slice with Pods of several namespaces. The identity and the
// Servers of a Pod's own namespace apply.
//
// Behaviours: E-10.
func TestServersOfTheirNamespace(t *testing.T) {
	w := newWorld(t, nil)
	l := aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2 pod=p", "10.0.0.3 pod=p")
	l.Endpoints[1].TargetRef.Namespace = "other"
	other := aPod("p", meshed)
	other.Namespace = "other"
	w.put(aService("web"), l, aPod("p", meshed), other)
	check := func(want string) {
		t.Helper()
		if got := w.opaqueAt(8080); got != want {
			t.Errorf("%q is opaque, want %q", got, want)
		}
		for i, e := range w.read("web", 8080).Slices[0].Endpoints {
			if want := []string{"default.ns.", "default.other.", "default.ns."}[i]; !strings.HasPrefix(
				e.Common.Identity.DNS,
				want,
			) {
				t.Errorf("%v has identity %s", e.Addr, e.Common.Identity.DNS)
			}
		}
	}
	check("")
	w.put(aServer("s", "8080", "", in("other")))
	check("10.0.0.2:8080")
	w.put(aServer("s", "8080", ""))
	w.del(aServer("s", "8080", "", in("other")))
	check("10.0.0.1:8080 10.0.0.3:8080")
}

// TestUnusable checks that malformed objects do not affect other objects. They are reported until
// they are corrected or deleted.
func TestUnusable(t *testing.T) {
	w := newWorld(t, nil)
	workload := aWorkload("v")
	workload.Invalid = "spec: odd"
	for _, s := range []*decode.Server{
		aServer("selector", "8080", "", odd(func(s *decode.ServerSpec) {
			s.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "In"}}
		})),
		aServer("other-selector", "8080", "", forWorkloads, odd(func(s *decode.ServerSpec) {
			s.ExternalWorkloadSelector.MatchLabels = map[string]string{"no key/at/all": ""}
		})),
		aServer("number", "70000", ""),
		aServer("port", "", "", odd(func(s *decode.ServerSpec) { s.Port = intstr.FromString("") })),
		aServer("spec", "8080", "", func(o *decode.Server) { o.Spec, o.Invalid = decode.ServerSpec{}, "spec: odd" }),
		aServer("good", "8080", "app=web"),
	} {
		w.put(s)
	}
	w.put(
		aService("web"),
		aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2 ew=v", "10.0.0.3"),
		aPod("p", podLabel("app", "web")),
		workload,
	)
	if got := addrs(w.read("web", 8080)); got != "10.0.0.1:8080 10.0.0.3:8080" {
		t.Errorf("got %q", got)
	}
	if got := w.opaqueAt(8080); got != "10.0.0.1:8080" {
		t.Errorf("%q is opaque", got)
	}
	want := []string{
		"ExternalWorkload ns/v: spec: odd",
		"Server ns/number: port: ",
		"Server ns/other-selector: externalWorkloadSelector: ",
		"Server ns/port: port: ",
		"Server ns/selector: podSelector: ",
		"Server ns/spec: spec: odd",
	}
	if got := w.Health().Unusable; !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("unusable: %q", got)
	}
	for i := range 20 {
		w.put(aServer(fmt.Sprint("x", i), "0", ""))
	}
	if got := w.Health().Warnings(); len(got) != 11 || got[0] != "left out: ExternalWorkload ns/v: spec: odd" ||
		got[10] != "left out besides these: 16 more" {
		t.Errorf("warnings: %q", got)
	}
	w.put(
		aServer("selector", "8080", ""),
		aServer("number", "7000", ""),
		aServer("port", "http", "", protocol("HTTP/1")),
		aWorkload("v"),
	)
	w.del(aServer("spec", "", ""), aServer("other-selector", "", ""))
	for i := range 20 {
		w.del(aServer(fmt.Sprint("x", i), "0", ""))
	}
	if got := w.Health().Unusable; len(got) != 0 {
		t.Errorf("unusable: %q", got)
	}
	if got := addrs(w.read("web", 8080)); got != "10.0.0.1:8080 10.0.0.2:8080 10.0.0.3:8080" {
		t.Errorf("got %q", got)
	}
}

// TestHugeServer checks that a Server with too many terms is refused quickly.
func TestHugeServer(t *testing.T) {
	values := make([]string, 20_000)
	for i := range values {
		values[i] = "%"
	}
	for name, n := range map[string]int{"too many": len(values), "invalid ones": maxSelectorSize - 1} {
		o := &decode.Server{
			Spec: decode.ServerSpec{
				ProxyProtocol: decode.ProtocolOpaque,
				Port:          intstr.FromInt32(80),
				PodSelector: &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{
						{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: values[:n]},
					},
				},
			},
		}
		f, ok := compactServer(o)
		if !ok || f.invalid == "" || len(f.invalid) > 600 {
			t.Errorf("%s: %v, refused with %d bytes", name, ok, len(f.invalid))
		}
	}
}

// TestTargetsOfOtherKinds checks that no reference to a Pod has the key of an ExternalWorkload.
func TestTargetsOfOtherKinds(t *testing.T) {
	for _, ref := range []corev1.ObjectReference{
		{Kind: "Pod", Namespace: "workload", Name: "ns/w"}, {Kind: "Pod", Namespace: "workload/ns", Name: "w"},
		{Kind: "Pod", Name: "a/b"},
	} {
		if key, ok := podTarget(&ref, "ns"); ok {
			t.Errorf("%+v names %s", ref, key)
		}
	}
	if key, ok := workloadTarget(&corev1.ObjectReference{Kind: "ExternalWorkload", Name: "a/b"}, "ns"); ok {
		t.Errorf("names %s", key)
	}
}
