package cluster

import (
	"net/netip"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
)

// TestOwner: who owns an address, and that every change of that is reported.
func TestOwner(t *testing.T) {
	known := make(map[netip.Addr]string)
	var cluster *running
	inCluster(t, func(c *Config, _ *trouble) {
		withAddresses(c)
		c.own.OwnerChanged = func(ip netip.Addr) { known[ip] = cluster.Owner(ip) }
	}, func(r *running) {
		cluster = r
		w := &watchedAddress{running: r}
		is := func(what, addr, want string) {
			t.Helper()
			synctest.Wait()
			ip := netip.MustParseAddr(addr)
			if got := r.Owner(ip); got != want || known[ip] != want {
				t.Errorf("%s: %s is %q, reported as %q, want %q", what, addr, got, known[ip], want)
			}
		}
		is("nothing there", "10.0.0.1", "")
		p := aPod("p", at("10.0.0.1"))
		r.create(p)
		is("a Pod", "10.0.0.1", "Pod ns/p")
		s := aService("web", "http=80")
		s.Spec.ClusterIPs = []string{"10.0.9.1", "fd00::9"}
		r.create(s)
		is("a Service", "10.0.9.1", "Service ns/web")
		is("its second family", "fd00::9", "Service ns/web")
		r.create(aPod("host", at("10.0.8.1"), hostNetwork))
		is("a node with a Pod on its network", "10.0.8.1", "Pod ns/host")
		r.create(workloadAt(aWorkload("vm", "http=80"), "10.0.7.1"))
		is("an ExternalWorkload", "10.0.7.1", "")
		p.Status.Phase = corev1.PodSucceeded
		w.update(p)
		is("a Pod that has ended", "10.0.0.1", "")
		w.remove(s)
		is("a deleted Service", "10.0.9.1", "")
	})
}

// TestExposed: addresses by which a Service is reached from outside, which own nothing.
func TestExposed(t *testing.T) {
	inCluster(t, func(c *Config, _ *trouble) { withAddresses(c) }, func(r *running) {
		s := aService("web", "http=80")
		s.Spec.ExternalIPs = []string{"198.51.100.1"}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.2"}, {Hostname: "lb.example.com"}}
		r.create(s)
		synctest.Wait()
		for addr, want := range map[string]string{"198.51.100.1": "Service ns/web", "198.51.100.2": "Service ns/web", "198.51.100.3": ""} {
			ip := netip.MustParseAddr(addr)
			if got := r.Exposed(ip); got != want || r.Owner(ip) != "" {
				t.Errorf("%s: %q is exposed by it, %q has it, want %q and nothing", addr, got, r.Owner(ip), want)
			}
		}
	})
}
