package cluster

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestProtocols checks that only TCP ports are served, in any order of the ports of a Service and a
// slice.
//
// Behaviours: PP-02.
func TestProtocols(t *testing.T) {
	dns := []string{"dns=53/UDP", "dns-tcp=53/TCP"}
	both := aSlice("s", "web", "dns=2053/UDP,dns-tcp=1053/TCP", "10.0.0.1")
	for _, x := range []struct {
		name  string
		port  uint16
		ports []string
		slice string // ports of the slice
		want  string
	}{
		{"UDP first", 53, dns, "dns=2053/UDP,dns-tcp=1053/TCP", "10.0.0.1:1053"},
		{"TCP first", 53, []string{dns[1], dns[0]}, "dns=2053/UDP,dns-tcp=1053/TCP", "10.0.0.1:1053"},
		{"no protocol is TCP", 53, []string{"dns=53/UDP", "dns-tcp=53"}, "dns=2053/UDP,dns-tcp=1053", "10.0.0.1:1053"},
		{"SCTP first", 5060, []string{"sctp=5060/SCTP", "udp=5060/UDP", "sip=5060"},
			"sctp=1/SCTP,udp=2/UDP,sip=3/TCP", "10.0.0.1:3"},
		{"an endpoint without the TCP port", 53, dns, "dns=2053/UDP", ""},
		{"an endpoint without the UDP port", 53, dns, "dns-tcp=1053/TCP", "10.0.0.1:1053"},
		{"a slice port of that name over UDP", 80, []string{"http=80"}, "http=8080/UDP", ""},
		{"a slice port of that name over UDP, then over TCP", 80, []string{"http=80"},
			"http=8081/UDP,http=8080/TCP", "10.0.0.1:8080"},
		{"a slice port without name over SCTP", 80, []string{"=80"}, "=8080/SCTP", ""},
		{"a port that is only UDP is not declared", 53, dns[:1], "dns=2053/UDP", "10.0.0.1:53"},
		{"a protocol that does not exist", 80, []string{"http=80/tcp"}, "http=8080", "10.0.0.1:80"},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.put(aService("web", x.ports...), aSlice("s", "web", x.slice, "10.0.0.1"))
			if got := addrs(w.read("web", x.port)); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
	w := newWorld(t, nil)
	w.put(aService("web", dns[0]), both)
	share := w.read("web", 53)
	w.put(aService("web", dns...))
	if now := w.read("web", 53); !share.Undeclared || now.Undeclared {
		t.Errorf("undeclared: %v without the TCP port, %v with it", share.Undeclared, now.Undeclared)
	}
}

// TestEndpointsProtocols is TestProtocols for Endpoints objects. Their ports may share a name.
//
// Behaviours: PP-02.
func TestEndpointsProtocols(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Rules.EndpointSlices = false })
	o := &coreEndpoints{ObjectMeta: inNS("web"), Subsets: []coreEndpointSubset{{
		Ports: []corev1.EndpointPort{{Name: "sip", Port: 1, Protocol: "UDP"},
			{Name: "sip", Port: 2, Protocol: "SCTP"}, {Name: "sip", Port: 3}},
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}},
	}, {
		Ports:     []corev1.EndpointPort{{Name: "sip", Port: 1, Protocol: "UDP"}},
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.2"}},
	}}}
	w.put(aService("web", "sip=5060"), o)
	if got := addrs(w.read("web", 5060)); got != "10.0.0.1:3" {
		t.Errorf("got %q", got)
	}
}

// TestNamedProtocols checks that names of UDP ports have no effect in Servers and in annotations
// with opaque ports.
//
// Behaviours: PP-04.
func TestNamedProtocols(t *testing.T) {
	overUDP := func(o *corev1.Pod) { o.Spec.Containers[0].Ports[0].Protocol = corev1.ProtocolUDP }
	for _, x := range []struct {
		name, addr string
		objects    []metav1.Object
		opaque     bool
	}{
		{"a Server by name, TCP", "10.0.0.1:8080",
			[]metav1.Object{aPod("p", at("10.0.0.1"), namedPort("http", 8080, 0)), aServer("s", "http", "")}, true},
		{"a Server by name, UDP", "10.0.0.1:8080",
			[]metav1.Object{aPod("p", at("10.0.0.1"), namedPort("http", 8080, 0), overUDP),
				aServer("s", "http", "")}, false},
		{"a Server by number, UDP", "10.0.0.1:8080",
			[]metav1.Object{aPod("p", at("10.0.0.1"), namedPort("http", 8080, 0), overUDP),
				aServer("s", "8080", "")}, true},
		{"an annotation of a Pod, UDP", "10.0.0.1:8080",
			[]metav1.Object{aPod("p", at("10.0.0.1"), namedPort("http", 8080, 0), overUDP,
				podAnnotation(opaqueAnnotation, "http"))}, false},
		{"one name over UDP and TCP", "10.0.0.1:8081",
			[]metav1.Object{aPod("p", at("10.0.0.1"), namedPort("http", 8080, 0), namedPort("http", 8081, 0),
				overUDP, podAnnotation(opaqueAnnotation, "http"))}, true},
		{"a host port over UDP belongs to no Pod", "192.168.0.1:53",
			[]metav1.Object{aPod("p", at("10.0.0.1"), onHost("192.168.0.1"), namedPort("dns", 53, 53), overUDP,
				podAnnotation(opaqueAnnotation, "53"))}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t, withAddresses)
			w.put(x.objects...)
			if got := w.LookupAddress(netip.MustParseAddrPort(x.addr)).Endpoint.Opaque; got != x.opaque {
				t.Errorf("opaque is %v", got)
			}
		})
	}
	web := aService("web", "quic=443/UDP", "https=443/TCP", "only=53/UDP")
	s := compactService(serviceAnnotation(web, opaqueAnnotation, "quic,only"), testRules, true)
	if got := fmt.Sprint(s.Ports, s.OpaquePorts, s.HasPort(443), s.HasPort(53)); got != "[{https 443}]  true false" {
		t.Errorf("the Service is cached as %s", got)
	}
	v := aWorkload("v", "linkerd-proxy=1/UDP", "http=8080/UDP", "http=8081/TCP", "linkerd-proxy=2")
	template := workloadFactsOf(v, testRules).fullTemplate()
	if template.proxy.inbound != 2 || len(template.ports.numbers()) != 2 {
		t.Errorf("the ExternalWorkload is cached as %+v", template)
	}
}
