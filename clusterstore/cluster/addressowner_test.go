package cluster

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestOwner: who owns an address, and that every change of that is reported, and no other one of a Pod.
func TestOwner(t *testing.T) {
	w := newWorld(t, withAddresses)
	is := func(what, addr, want string, reported bool) {
		t.Helper()
		ip, topics := netip.MustParseAddr(addr), w.markedTopics()
		if _, changed := topics[Topic{IP: ip, AddressOwner: true}]; w.AddressOwner(ip) != want || reported && !changed {
			t.Errorf("%s: %s is %q, want %q; reported %v", what, addr, w.AddressOwner(ip), want, topics)
		}
	}
	is("nothing there", "10.0.0.1", "", false)
	w.put(aPod("p", at("10.0.0.1")))
	is("a Pod", "10.0.0.1", "Pod ns/p", true)
	w.put(aPod("p", at("10.0.0.1"), podLabel("app", "web")))
	ip := netip.MustParseAddr("10.0.0.1")
	if _, changed := w.markedTopics()[Topic{IP: ip, AddressOwner: true}]; changed {
		t.Error("other labels are reported as another owner")
	}
	s := clusterIP(aService("web", "http=80"), "10.0.9.1", "fd00::9")
	w.put(s)
	is("a Service", "10.0.9.1", "Service ns/web", true)
	is("its second family", "fd00::9", "Service ns/web", false) // both were reported
	w.put(aPod("host", at("10.0.8.1"), hostNetwork))
	is("a node with a Pod on its network", "10.0.8.1", "Pod ns/host", true)
	w.put(workloadAt(aWorkload("vm", "http=80"), "10.0.7.1"))
	is("an ExternalWorkload", "10.0.7.1", "", false)
	w.put(aPod("p", at("10.0.0.1"), phase(corev1.PodSucceeded)))
	is("a Pod that has ended", "10.0.0.1", "", true)
	w.del(s)
	is("a deleted Service", "10.0.9.1", "", true)
}

// TestAssignedTo tests which addresses a request reaches something of the local cluster at, also by addresses that
// Owner says nothing about.
func TestAssignedTo(t *testing.T) {
	w := newWorld(t, withAddresses)
	is := func(want string, addresses ...string) {
		t.Helper()
		for _, addr := range addresses {
			if got := w.AssignedTo(netip.MustParseAddr(addr)); got != want {
				t.Errorf("%s is assigned to %q, want %q", addr, got, want)
			}
		}
	}
	web := clusterIP(aService("web", "http=80"), "10.0.9.1", "fd00::9")
	external := []string{"203.0.113.250", "203.0.113.251"}
	for i := range 100 { // more than an endpoint may have
		web.Spec.ExternalIPs = append(web.Spec.ExternalIPs, fmt.Sprintf("203.0.113.%d", i))
		external = append(external, fmt.Sprintf("203.0.113.%d", i))
	}
	web.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
		{IP: "203.0.113.250"}, {Hostname: "lb.example.com"}, {IP: "203.0.113.251"}, {IP: "203.0.113.7"},
	}
	headless := clusterIP(aService("headless", "http=80"), "None")
	headless.Spec.ExternalIPs = []string{"::ffff:203.0.113.252"}
	w.put(web, headless)
	is("Service ns/web", "10.0.9.1", "fd00::9")
	is("Service ns/web", external...)
	is("Service ns/headless", "203.0.113.252")

	pod := aPod("p", at("10.0.0.1", "fd00::1"), onHost("192.168.0.1"), boundPort(8080, 80, "192.168.1.1"))
	w.put(pod, aPod("host", at("192.168.0.2"), hostNetwork))
	is("Pod ns/p", "10.0.0.1", "fd00::1", "192.168.0.1", "192.168.1.1")
	is("Pod ns/host", "192.168.0.2")

	node := aLocalNode("n1", "192.168.0.1", "n1.example.com", "192.168.0.1", "fd00::a1", "::ffff:198.51.100.1")
	w.put(node, aLocalNode("n2", "192.168.0.2"), aLocalNode("n3", "fd00::a1"))
	is("Node n1", "192.168.0.1", "198.51.100.1", "fd00::a1")
	is("Node n2", "192.168.0.2")
	is("", "198.51.100.2", "10.0.0.2", "0.0.0.0")

	// Addresses follow their objects.
	w.put(aLocalNode("n1", "192.168.0.9"))
	is("Node n3", "fd00::a1")
	is("Node n1", "192.168.0.9")
	is("", "198.51.100.1")
	is("Pod ns/p", "192.168.0.1")
	w.del(node)
	is("", "192.168.0.9")
	pod.Status.Phase = corev1.PodFailed
	w.put(pod)
	is("", "10.0.0.1", "fd00::1", "192.168.0.1", "192.168.1.1")
	web.Spec.ExternalIPs, web.Status.LoadBalancer.Ingress = nil, nil
	w.put(web)
	is("", external...)
	is("Service ns/web", "10.0.9.1")
	w.store("nodes").Replace(aLocalNode("n4", "192.168.0.4"))
	is("Node n4", "192.168.0.4")
	is("Pod ns/host", "192.168.0.2")
	is("", "fd00::a1")
}
