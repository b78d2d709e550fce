package cluster

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// boundPort gives the Pod's first container a port. Its host port is bound to an address.
func boundPort(port, hostPort int32, hostIP string) func(*corev1.Pod) {
	return func(o *corev1.Pod) {
		o.Spec.Containers[0].Ports = append(o.Spec.Containers[0].Ports,
			corev1.ContainerPort{ContainerPort: port, HostPort: hostPort, HostIP: hostIP})
	}
}

// TestHostPortRules checks that annotations and Servers that name a container port also apply to
// its host port. An annotation may also name the host port itself. The endpoint at the node's
// address never has an inbound port.
func TestHostPortRules(t *testing.T) {
	const addr = "192.168.0.1:7777"
	opaque := strings.Replace(meshedDescribed, " meshed", " meshed opaque", 1)
	skip := strings.Replace(podDescribed, " namespace", " control_plane_ns:linkerd namespace", 1)
	for name, x := range map[string]struct {
		pod    []func(*corev1.Pod)
		server string // port that the Server selects
		want   string
	}{
		"no rule":               {nil, "", meshedDescribed},
		"opaque container port": {[]func(*corev1.Pod){podAnnotation(opaqueAnnotation, "8080")}, "", opaque},
		"opaque host port":      {[]func(*corev1.Pod){podAnnotation(opaqueAnnotation, "7777")}, "", opaque},
		"opaque by name":        {[]func(*corev1.Pod){podAnnotation(opaqueAnnotation, "web")}, "", opaque},
		"another opaque port": {[]func(*corev1.Pod){podAnnotation(opaqueAnnotation, "25")}, "",
			meshedDescribed},
		"skipped container port":         {[]func(*corev1.Pod){podAnnotation(skipAnnotation, "8000-8100")}, "", skip},
		"skipped host port":              {[]func(*corev1.Pod){podAnnotation(skipAnnotation, "7777")}, "", skip},
		"a Server of the container port": {nil, "8080", opaque},
		"a Server of the name":           {nil, "web", opaque},
		"a Server of another port":       {nil, "4143", meshedDescribed},
		"host port of the admin port": {[]func(*corev1.Pod){podAnnotation(opaqueAnnotation, "4191"),
			func(o *corev1.Pod) { o.Spec.Containers[0].Ports[0].ContainerPort = 4191 }}, "", opaque},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withAddresses)
			pod := []func(*corev1.Pod){at("10.0.0.1"), onHost("192.168.0.1"), meshed, namedPort("web", 8080, 7777)}
			w.put(aPod("p", append(pod, x.pod...)...))
			if x.server != "" {
				s := aServer("s", x.server, "")
				s.Spec.PodSelector.MatchLabels = nil
				w.put(s)
			}
			if got := w.at(addr); got != addr+x.want {
				t.Errorf("got  %s\nwant %s", got, addr+x.want)
			}
		})
	}
}

// TestBoundHostPorts checks at which addresses a Pod claims a host port with a hostIP.
func TestBoundHostPorts(t *testing.T) {
	p := aPod("p", at("10.0.0.1"), onHost("192.168.0.1", "fd00::1"))
	for _, bind := range []func(*corev1.Pod){
		boundPort(1, 81, ""), boundPort(2, 82, "0.0.0.0"), boundPort(3, 83, "::"),
		boundPort(4, 84, "192.168.0.1"), boundPort(5, 85, "fd00::1"),
		boundPort(6, 86, "192.168.7.7"), boundPort(7, 87, "127.0.0.1"), boundPort(8, 88, "odd"),
		boundPort(9, 89, "192.168.0.1"), boundPort(10, 89, ""),
	} {
		bind(p)
	}
	q := aPod("q", at("10.0.0.2"), onHost("192.168.0.1", "fd00::1"), boundPort(1, 84, "fd00::1"))
	w := newWorld(t, withAddresses)
	w.put(p, q)
	for addr, want := range map[string]string{
		"192.168.0.1:81": "ns/p 1", "[fd00::1]:81": "ns/p 1", "192.168.0.1:82": "ns/p 2",
		"[fd00::1]:82": "ns/p 2", "192.168.0.1:83": "ns/p 3", "[fd00::1]:83": "ns/p 3",
		"192.168.0.1:84": "ns/p 4", "[fd00::1]:84": "ns/q 1", "192.168.0.1:85": "", "[fd00::1]:85": "ns/p 5",
		"192.168.7.7:86": "ns/p 6", "192.168.0.1:86": "",
		"127.0.0.1:87": "", "192.168.0.1:87": "", "192.168.0.1:88": "", "192.168.0.1:89": "ns/p 9",
		"[fd00::1]:89": "ns/p 10", "192.168.7.7:81": "",
	} {
		a, got := netip.MustParseAddrPort(addr), ""
		if list, _ := w.cache.local.addresses.claimants(a); len(list) == 1 {
			got = fmt.Sprint(list[0].key, " ", w.cache.local.addresses.locations[list[0]].portBehind(a))
		}
		if got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}

// TestBoundElsewhere checks a Pod that binds a host port to an address that its node does not have.
// Any other object takes precedence at that address.
func TestBoundElsewhere(t *testing.T) {
	const there = "10.9.9.9:80"
	w := newWorld(t, withAddresses)
	w.put(aPod("p", at("10.0.0.1"), onHost("192.168.0.1"), boundPort(8080, 80, "10.9.9.9")))
	if got := w.at(there); got != there+podDescribed {
		t.Errorf("alone: %s", got)
	}
	if ip := netip.MustParseAddr("10.9.9.9"); w.AddressOwner(ip) != "" {
		t.Errorf("endpoints of linked clusters are rejected at %v, which belongs to %s", ip, w.AddressOwner(ip))
	}
	w.put(workloadAt(aWorkload("v", "http=80"), "10.9.9.9"))
	if got := w.at(there); !strings.Contains(got, "external_workload:v") {
		t.Errorf("with an ExternalWorkload: %s", got)
	}
	w.put(aPod("q", at("10.0.0.2"), onHost("10.9.9.9"), boundPort(8080, 80, "")))
	if got := w.at(there); !strings.Contains(got, "pod:q") {
		t.Errorf("with a Pod of that node: %s", got)
	}
}
