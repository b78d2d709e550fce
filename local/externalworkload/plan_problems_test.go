package externalworkload

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/decode"
)

// TestProblems: what is left out, and that it is reported.
func TestProblems(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, x := range []struct {
		name     string
		svc      *corev1.Service
		w        *decode.ExternalWorkload
		slices   string
		problems string
	}{
		{
			"no IP", aService("web", "80/8080"), aWorkload("vm-1", "10.0.0.256,10.0.0.1", "8080"),
			"IPv4 =8080/TCP: vm-1=10.0.0.1", `vm-1: "10.0.0.256" is no IP address`,
		},
		{
			"leading zero", aService("web", "80/8080"), aWorkload("vm-1", "010.0.0.1", "8080"), "",
			`vm-1: "010.0.0.1" is no IP address`,
		},
		{
			"zone of an IP", families(aService("web", "80/8080")),
			aWorkload("vm-1", "2001:db8::1%eth0", "8080"), "", `vm-1: "2001:db8::1%eth0" is no IP address`,
		},
		{
			"loopback", aService("web", "80/8080"), aWorkload("vm-1", "127.0.0.1", "8080"), "",
			"vm-1: 127.0.0.1 can't be the address of an endpoint",
		},
		{
			"link-local", families(aService("web", "80/8080")), aWorkload("vm-1", "fe80::1", "8080"), "",
			"vm-1: fe80::1 can't be the address of an endpoint",
		},
		{
			"multicast", aService("web", "80/8080"), aWorkload("vm-1", "239.0.0.1", "8080"), "",
			"vm-1: 239.0.0.1 can't be the address of an endpoint",
		},
		{
			"this network", aService("web", "80/8080"), aWorkload("vm-1", "0.0.0.5", "8080"), "",
			"vm-1: 0.0.0.5 can't be the address of an endpoint",
		},
		{
			"broadcast", aService("web", "80/8080"), aWorkload("vm-1", "255.255.255.255", "8080"), "",
			"vm-1: 255.255.255.255 can't be the address of an endpoint",
		},
		{
			"unspecified", families(aService("web", "80/8080")), aWorkload("vm-1", "::", "8080"), "",
			"vm-1: :: can't be the address of an endpoint",
		},
		{
			"IPv4 in IPv6", aService("web", "80/8080"), aWorkload("vm-1", "::ffff:10.0.0.1", "8080"),
			"IPv4 =8080/TCP: vm-1=10.0.0.1", "",
		},
		{
			"unreadable", aService("web", "80/8080"),
			change(aWorkload("vm-1", "10.0.0.1", "8080"), func(w *decode.ExternalWorkload) { w.Invalid = "spec: no" }),
			"", "vm-1: can't be read: spec: no",
		},
		{
			"port out of range", aService("web", "a=80/http", "b=81/8080"),
			aWorkload("vm-1", "10.0.0.1", "http=65536", "8080"), "IPv4 b=8080/TCP: vm-1=10.0.0.1",
			"vm-1: has no port http/TCP",
		},
		{
			"port below range", aService("web", "a=80/http"), aWorkload("vm-1", "10.0.0.1", "http=-1"),
			"IPv4: vm-1=10.0.0.1", "vm-1: has no port http/TCP",
		},
		{
			"no hostname", headless(aService("web", "80/8080")), aWorkload(long, "10.0.0.1", "8080"),
			"IPv4 =8080/TCP: " + long + "=10.0.0.1", long + ": is no DNS label and can't be a hostname",
		},
		{
			"a name with dots", headless(aService("web", "80/8080")), aWorkload("vm.1", "10.0.0.1", "8080"),
			"IPv4 =8080/TCP: vm.1=10.0.0.1", "vm.1: is no DNS label and can't be a hostname",
		},
		{
			"a name with dots, not headless", aService("web", "80/8080"),
			aWorkload("vm.1", "10.0.0.1", "8080"), "IPv4 =8080/TCP: vm.1=10.0.0.1", "",
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := &world{t: t}
			p, left := newPlan(context.Background(), x.svc, []*decode.ExternalWorkload{x.w}, nil)
			w.apply(p)
			if got := w.String(); got != x.slices {
				t.Errorf("slices %q, want %q", got, x.slices)
			}
			if got := strings.Join(left.list(), "; "); got != x.problems {
				t.Errorf("problems %q, want %q", got, x.problems)
			}
			for _, s := range w.slices {
				if h := s.Endpoints[0].Hostname; h != nil {
					t.Errorf("hostname %q", *h)
				}
			}
		})
	}
}
