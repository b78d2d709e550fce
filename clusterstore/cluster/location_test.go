package cluster

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/decode"
)

// TestHostileIPs checks that addresses that cannot be another host's are not indexed. Of a large
// number of addresses, only the first ones are indexed.
func TestHostileIPs(t *testing.T) {
	hostPort := namedPort("", 80, 7777)
	for _, x := range []struct {
		name string
		ips  func(ips ...string) []netip.Addr
	}{
		{"Pod", func(ips ...string) []netip.Addr { return slices.Collect(podLocation(aPod("p", at(ips...))).addrs) }},
		{"node", func(ips ...string) []netip.Addr {
			return slices.Collect(podLocation(aPod("p", onHost(ips...), hostPort)).addrs)
		}},
		{"ExternalWorkload", func(ips ...string) []netip.Addr {
			return slices.Collect(workloadLocation(workloadAt(aWorkload("v"), ips...)).addrs)
		}},
		{"Service", func(ips ...string) []netip.Addr { return clusterIPs(clusterIP(aService("web"), ips...)) }},
	} {
		for _, ip := range []string{
			"127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "fe80::1%eth0", "2001:db8::1%eth0",
			"224.0.0.1", "ff02::1", "0.0.0.0", "::", "0.255.0.1", "255.255.255.255", "10.0.0.1:80", "10.0.0.256",
			"\xff", "",
		} {
			if got := x.ips(ip); len(got) != 0 {
				t.Errorf("%s at %q: %v", x.name, ip, got)
			}
		}
		var many []string
		for i := range 1000 {
			many = append(many, fmt.Sprintf("10.0.%d.%d", i/250, i%250))
		}
		if got := x.ips(many...); len(got) != 16 || got[15].String() != "10.0.0.15" {
			t.Errorf("%s: at %v", x.name, got)
		}
	}
}

// TestDeclaredPorts checks that a port that is declared repeatedly is cached once.
func TestDeclaredPorts(t *testing.T) {
	p, v := aPod("p", onHost("10.0.0.1")), aWorkload("v")
	for range 1000 {
		for _, n := range []int32{443, 80, 70000, 0, -1} {
			p.Spec.Containers[0].Ports = append(
				p.Spec.Containers[0].Ports,
				corev1.ContainerPort{ContainerPort: 1, HostPort: n},
			)
			v.Spec.Ports = append(v.Spec.Ports, decode.PortSpec{Port: n})
		}
	}
	if s := workloadLocation(v); !slices.Equal(s.ports, []uint16{80, 443}) || cap(s.ports) > 8 {
		t.Errorf("%v with capacity %d", s.ports, cap(s.ports))
	}
	want := []hostPort{{port: 80, container: 1}, {port: 443, container: 1}}
	if s := podLocation(p); !slices.Equal(s.hostPorts, want) || cap(s.hostPorts) > 8 {
		t.Errorf("%v with capacity %d", s.hostPorts, cap(s.hostPorts))
	}
}

// TestBoundAddresses checks that a Pod whose host ports name many addresses is indexed at a few of
// them.
func TestBoundAddresses(t *testing.T) {
	p := aPod("p", at("10.0.0.1"), onHost("10.0.0.2"))
	for i := range 1000 {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{
			ContainerPort: 80, HostPort: 80, HostIP: fmt.Sprintf("10.1.%d.%d", i/250, i%250+1),
		})
	}
	if n := len(slices.Collect(podLocation(p).addrs)); n != 2+maxIPs {
		t.Errorf("indexed at %d addresses", n)
	}
}

// TestPortNames checks that the first of several ports with one name is found. An unknown name has
// no port.
func TestPortNames(t *testing.T) {
	const list = "http,,last"
	service, v := aService(
		"web",
		"=1",
		"http=80",
		"http=81",
		"last=90",
	), aWorkload(
		"v",
		"=1",
		"http=80",
		"http=81",
		"last=90",
	)
	v.Annotations = map[string]string{opaqueAnnotation: list}
	p := aPod(
		"p",
		podAnnotation(opaqueAnnotation, list),
		namedPort("", 1, 2),
		namedPort("http", 80, 8080),
		namedPort("http", 81, 8081),
		namedPort("last", 90, 0),
	)
	for name, got := range map[string]Ports{
		"Service": compactService(serviceAnnotation(service, opaqueAnnotation, list), testRules,
			true).OpaquePorts,
		"Pod":              podFactsOf(p, testRules).template.Value().opaque,
		"ExternalWorkload": workloadFactsOf(v, testRules).template.Value().opaque,
	} {
		if got.String() != "80,90" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWorkloadsApart checks that a lookup of a Pod's address does not examine ExternalWorkloads.
// Any number of them may have that address.
func TestWorkloadsApart(t *testing.T) {
	w := newWorld(t, withAddresses)
	w.put(aPod("p", at("10.0.0.1")))
	for i := range 100 {
		w.put(workloadAt(aWorkload(fmt.Sprint("v", i), "http=80"), "10.0.0.1"))
	}
	a, ip := w.addresses, netip.MustParseAddr("10.0.0.1")
	if pods, workloads := len(a.pods[ip]), len(a.workloads[ip]); pods != 1 || workloads != 100 {
		t.Errorf("%d Pods and %d ExternalWorkloads", pods, workloads)
	}
}
