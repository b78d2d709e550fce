package cluster

import (
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
		if _, changed := topics[Topic{IP: ip, Owner: true}]; w.Owner(ip) != want || reported && !changed {
			t.Errorf("%s: %s is %q, want %q; reported %v", what, addr, w.Owner(ip), want, topics)
		}
	}
	is("nothing there", "10.0.0.1", "", false)
	w.put(aPod("p", at("10.0.0.1")))
	is("a Pod", "10.0.0.1", "Pod ns/p", true)
	w.put(aPod("p", at("10.0.0.1"), podLabel("app", "web")))
	ip := netip.MustParseAddr("10.0.0.1")
	if _, changed := w.markedTopics()[Topic{IP: ip, Owner: true}]; changed {
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

// TestExposed: addresses by which a Service is reached from outside, which own nothing.
func TestExposed(t *testing.T) {
	w, s := newWorld(t, withAddresses), aService("web", "http=80")
	s.Spec.ExternalIPs = []string{"198.51.100.1"}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.2"}, {Hostname: "lb.example.com"}}
	w.put(s)
	for addr, want := range map[string]string{"198.51.100.1": "Service ns/web", "198.51.100.2": "Service ns/web", "198.51.100.3": ""} {
		ip := netip.MustParseAddr(addr)
		if got := w.Exposed(ip); got != want || w.Owner(ip) != "" {
			t.Errorf("%s: %q is exposed by it, %q has it, want %q and nothing", addr, got, w.Owner(ip), want)
		}
	}
}
