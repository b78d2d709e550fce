package externalworkload

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/clusterstore/decode"
)

func inNS(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name)}
}

// aService returns an IPv4 Service that selects app=vm. Each port has the form
// "[NAME=]PORT/TARGET[/PROTOCOL]".
func aService(name string, ports ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: inNS(name), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.1", Selector: map[string]string{"app": "vm"},
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
	}}
	for _, p := range ports {
		name, rest, named := strings.Cut(p, "=")
		if !named {
			name, rest = "", p
		}
		parts := append(strings.Split(rest, "/"), "TCP")
		number, err := strconv.Atoi(parts[0])
		if err != nil {
			panic(err)
		}
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
			Name: name, Port: int32(number), TargetPort: intstr.Parse(parts[1]), Protocol: corev1.Protocol(parts[2]),
		})
	}
	return s
}

func families(s *corev1.Service, f ...corev1.IPFamily) *corev1.Service {
	s.Spec.IPFamilies = f
	return s
}

func headless(s *corev1.Service) *corev1.Service {
	s.Spec.ClusterIP = corev1.ClusterIPNone
	return s
}

// aWorkload returns a ready workload with the label app=vm. ips has the form "IP,IP", and each port
// has the form "[NAME=]PORT[/PROTOCOL]".
func aWorkload(name, ips string, ports ...string) *decode.ExternalWorkload {
	w := &decode.ExternalWorkload{ObjectMeta: inNS(name)}
	w.Labels = map[string]string{"app": "vm"}
	w.Status.Conditions = []decode.WorkloadCondition{{Type: "Ready", Status: "True"}}
	for ip := range strings.SplitSeq(ips, ",") {
		if ip != "" {
			w.Spec.WorkloadIPs = append(w.Spec.WorkloadIPs, decode.WorkloadIP{IP: ip})
		}
	}
	for _, p := range ports {
		name, rest, named := strings.Cut(p, "=")
		if !named {
			name, rest = "", p
		}
		number, protocol, _ := strings.Cut(rest, "/")
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(err)
		}
		w.Spec.Ports = append(w.Spec.Ports, decode.PortSpec{Name: name, Port: int32(n), Protocol: protocol})
	}
	return w
}

// workloads returns n workloads vm-000, vm-001 and so on. Each has an address and the port
// http=8080.
func workloads(n int) (list []*decode.ExternalWorkload) {
	for i := range n {
		list = append(list, aWorkload(
			fmt.Sprintf("vm-%03d", i), fmt.Sprintf("10.0.%d.%d", i/200, i%200+1), "http=8080",
		))
	}
	return list
}

func unready(w *decode.ExternalWorkload) *decode.ExternalWorkload {
	w.Status.Conditions[0].Status = "False"
	return w
}

// world is an API server that stores only EndpointSlices.
type world struct {
	t      testing.TB
	slices []*discoveryv1.EndpointSlice // each is replaced when it changes
	names  int
}

// apply executes a plan like an API server. After each write, apply calls the given functions.
func (w *world) apply(p plan, after ...func()) {
	w.t.Helper()
	written := func() {
		for _, f := range after {
			f()
		}
	}
	for _, s := range p.create {
		w.create(s)
		written()
	}
	for _, s := range slices.Concat(p.update, p.move) {
		w.update(s)
		written()
	}
	for _, s := range p.remove {
		w.remove(s.Name)
		written()
	}
}

// create stores a slice, and names the slice unless it has a name.
func (w *world) create(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	w.names++
	made := s.DeepCopy()
	if made.Generation = 1; made.Name == "" {
		made.Name = fmt.Sprintf("%s%04d", s.GenerateName, w.names)
	}
	made.UID = types.UID("uid-of-" + made.Name)
	w.slices = append(w.slices, made)
	return made
}

func (w *world) update(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	w.t.Helper()
	i := w.index(s.Name)
	if w.slices[i].AddressType != s.AddressType {
		w.t.Fatalf("the address type of slice %s changes from %s to %s", s.Name, w.slices[i].AddressType, s.AddressType)
	}
	w.slices[i] = s.DeepCopy()
	return w.slices[i]
}

func (w *world) remove(name string) {
	w.t.Helper()
	i := w.index(name)
	w.slices = slices.Delete(slices.Clone(w.slices), i, i+1)
}

func (w *world) index(name string) int {
	w.t.Helper()
	i := slices.IndexFunc(w.slices, func(x *discoveryv1.EndpointSlice) bool { return x.Name == name })
	if i < 0 {
		w.t.Fatalf("the written slice %q does not exist", name)
	}
	return i
}

// sync makes a plan and applies it. The test fails if a second sync would write anything.
func (w *world) sync(svc *corev1.Service, workloads ...*decode.ExternalWorkload) plan {
	w.t.Helper()
	p, _ := newPlan(context.Background(), svc, workloads, w.slices)
	w.apply(p)
	if again, _ := newPlan(context.Background(), svc, workloads, w.slices); again.size() > 0 {
		w.t.Errorf("a second sync writes: %s", again)
	}
	return p
}

func (p plan) size() int { return len(p.create) + len(p.update) + len(p.move) + len(p.remove) }

// String returns the sizes of the written slices in the form "create 100 100 50, update 3, delete
// 1".
func (p plan) String() string {
	var parts []string
	for _, x := range []struct {
		name string
		list []*discoveryv1.EndpointSlice
	}{{"create", p.create}, {"update", slices.Concat(p.update, p.move)}, {"delete", p.remove}} {
		if len(x.list) == 0 {
			continue
		}
		sizes := []string{x.name}
		for _, s := range x.list {
			sizes = append(sizes, strconv.Itoa(len(s.Endpoints)))
		}
		parts = append(parts, strings.Join(sizes, " "))
	}
	return strings.Join(parts, ", ")
}

// String returns the endpoints of each slice on one line, in the form "IPv4 http=8080/TCP:
// vm-1=10.0.0.1 vm-2=10.0.0.2!". An exclamation mark means not ready.
func (w *world) String() string {
	var lines []string
	for _, s := range w.slices {
		lines = append(lines, describe(s))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func describe(s *discoveryv1.EndpointSlice) string {
	words := []string{string(s.AddressType)}
	for _, p := range s.Ports {
		words = append(words, fmt.Sprintf("%s=%d/%s", *p.Name, *p.Port, *p.Protocol))
	}
	words[len(words)-1] += ":"
	for _, e := range s.Endpoints {
		word := e.TargetRef.Name + "=" + strings.Join(e.Addresses, "+")
		if !*e.Conditions.Ready {
			word += "!"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// put adds a slice of the Service with the endpoints of the given workloads.
func (w *world) put(svc *corev1.Service, list ...*decode.ExternalWorkload) *discoveryv1.EndpointSlice {
	w.t.Helper()
	before := len(w.slices)
	fresh, _ := newPlan(context.Background(), svc, list, nil)
	w.apply(fresh)
	if len(w.slices) != before+1 {
		w.t.Fatalf("put created %d slices, want one", len(w.slices)-before)
	}
	return w.slices[before]
}

// TestPortsOf checks which ports of a workload a port of a Service refers to.
func TestPortsOf(t *testing.T) {
	w := aWorkload("vm-1", "10.0.0.1", "http=0", "http=8080", "http=8081", "dns=53/UDP", "dns=54/TCP", "9090")
	for _, x := range []struct {
		target string
		want   int32
	}{
		{"http/TCP", 8080}, {"8081/TCP", 8081}, {"8081/UDP", 0}, {"dns/UDP", 53}, {"dns/TCP", 54},
		{"53/TCP", 0}, {"53/UDP", 53}, {"9090/", 9090}, {"0/TCP", 0}, {"none/TCP", 0},
	} {
		port, protocol, _ := strings.Cut(x.target, "/")
		p := corev1.ServicePort{Port: 1, TargetPort: intstr.Parse(port), Protocol: corev1.Protocol(protocol)}
		if got := portsOf(w)[targetOf(&p)]; got != x.want {
			t.Errorf("%s: %d, want %d", x.target, got, x.want)
		}
	}
	if got := portsOf(w)[targetOf(&corev1.ServicePort{Port: 9090})]; got != 9090 {
		t.Errorf("a port without a target matches port %d", got)
	}
}

// TestPortsKey checks that the key depends on all fields of ports, but not on their order.
func TestPortsKey(t *testing.T) {
	port := func(name string, number int32, protocol corev1.Protocol) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &protocol}
	}
	a, b := port("http", 8080, "TCP"), port("admin", 8080, "TCP")
	odd, other := a, a
	odd.Port, other.AppProtocol = nil, new("http")
	list := []discoveryv1.EndpointPort{a, b}
	if newPortsKey(list) != newPortsKey([]discoveryv1.EndpointPort{b, a}) || *list[0].Name != "http" {
		t.Error("the key depends on the order of the ports")
	}
	seen := make(map[portsKey]int)
	for i, ports := range [][]discoveryv1.EndpointPort{
		nil,
		{a},
		{b},
		{a, b},
		{odd},
		{other},
		{port("http", 8081, "TCP")},
		{port("http", 8080, "UDP")},
	} {
		key := newPortsKey(ports)
		if j, ok := seen[key]; ok {
			t.Errorf("the ports %d and %d have the same key %s", i, j, key)
		}
		seen[key] = i
	}
}

// TestManyPorts checks a Service with more ports than a slice can have. Only the first ports are
// used, and the problem is reported.
func TestManyPorts(t *testing.T) {
	svc := aService("web")
	for i := range 3 * maxPorts {
		svc.Spec.Ports = append(svc.Spec.Ports, aService("", fmt.Sprintf("p%d=%d/http", i, i+1)).Spec.Ports...)
	}
	w := &world{t: t}
	p, left := newPlan(context.Background(), svc, workloads(3), nil)
	w.apply(p)
	if len(w.slices) != 1 || len(w.slices[0].Ports) != maxPorts || len(w.slices[0].Endpoints) != 3 {
		t.Errorf("slices %s", w)
	}
	if got := left.list(); !slices.Equal(got, []string{"web: has 300 ports, but only the first 100 are used"}) {
		t.Errorf("problems %q", got)
	}
}
