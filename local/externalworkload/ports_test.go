package externalworkload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestPortsOf: which of a workload's ports a Service's port refers to.
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
		t.Errorf("no target: %d", got)
	}
}

// TestPortsKey: the order of ports does not matter, and all their fields do.
func TestPortsKey(t *testing.T) {
	port := func(name string, number int32, protocol corev1.Protocol) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &protocol}
	}
	a, b := port("http", 8080, "TCP"), port("admin", 8080, "TCP")
	odd, other := a, a
	odd.Port, other.AppProtocol = nil, new("http")
	list := []discoveryv1.EndpointPort{a, b}
	if newPortsKey(list) != newPortsKey([]discoveryv1.EndpointPort{b, a}) || *list[0].Name != "http" {
		t.Error("the order matters")
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
			t.Errorf("%d and %d are the same: %s", i, j, key)
		}
		seen[key] = i
	}
}

// TestManyPorts: of a Service with more ports than a slice may have the first are
// used, whatever that costs, and it is reported.
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
	if got := left.list(); !slices.Equal(got, []string{"web: has 300 ports, of which the first 100 are used"}) {
		t.Errorf("problems %q", got)
	}
}
