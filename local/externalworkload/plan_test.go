package externalworkload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/clusterstore/decode"
)

// TestFirstSlices checks the first slices of a Service.
func TestFirstSlices(t *testing.T) {
	two := []*decode.ExternalWorkload{
		aWorkload("vm-1", "10.0.0.1", "http=8080"), aWorkload("vm-2", "10.0.0.2", "http=8080"),
	}
	dual := []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	mixed := []*decode.ExternalWorkload{
		aWorkload("vm-1", "10.0.0.1", "http=8080"), aWorkload("vm-2", "10.0.0.2,2001:db8::2", "http=8080"),
	}
	for _, x := range []struct {
		name      string
		svc       *corev1.Service
		workloads []*decode.ExternalWorkload
		want      string
	}{
		{
			"EW-01 no selector",
			change(aService("web", "80/8080"), func(s *corev1.Service) { s.Spec.Selector = nil }), two, "",
		},
		{"EW-02 ExternalName with selector and ports", external(aService("web", "80/8080")), two, ""},
		{"EW-03 ExternalName with selector", external(aService("web")), two, ""},
		{
			"EW-04 ExternalName with ports",
			change(aService("web", "80/8080"), func(s *corev1.Service) { external(s).Spec.Selector = nil }),
			two, "",
		},
		{
			"EW-05 ExternalName",
			change(aService("web"), func(s *corev1.Service) { external(s).Spec.Selector = nil }), two, "",
		},
		{
			"EW-06 terminating",
			change(aService("web", "80/8080"), func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{} }),
			two, "",
		},
		{"no workload", aService("web", "80/8080"), nil, ""},
		{"EW-09 an IPv4 Service", aService("web", "tcp=80/8080", "udp=53/5353/UDP", "sctp=90/9090/SCTP"),
			[]*decode.ExternalWorkload{
				aWorkload("vm-1", "10.0.0.1", "8080", "5353/UDP", "9090/SCTP"),
				aWorkload("vm-2", "10.0.0.2,2001:db8::2", "8080", "5353/UDP", "9090/SCTP"),
			}, "IPv4 tcp=8080/TCP udp=5353/UDP sctp=9090/SCTP: vm-1=10.0.0.1 vm-2=10.0.0.2"},
		{
			"EW-10 an IPv6 Service", families(aService("web", "http=80/8080"), corev1.IPv6Protocol), mixed,
			"IPv6 http=8080/TCP: vm-2=2001:db8::2",
		},
		{"EW-11 not ready", aService("web", "http=80/8080"),
			[]*decode.ExternalWorkload{two[0], unready(aWorkload("vm-2", "10.0.0.2", "8080"))},
			"IPv4 http=8080/TCP: vm-1=10.0.0.1 vm-2=10.0.0.2!"},
		{"EW-12 the same address twice", aService("web", "http=80/8080"),
			[]*decode.ExternalWorkload{two[0], aWorkload("vm-2", "10.0.0.1", "8080")},
			"IPv4 http=8080/TCP: vm-1=10.0.0.1 vm-2=10.0.0.1"},
		{
			"EW-27 new slices for IPv4", aService("web", "http=80/8080"), two,
			"IPv4 http=8080/TCP: vm-1=10.0.0.1 vm-2=10.0.0.2",
		},
		{
			"EW-28 new slices for IPv6", families(aService("web", "http=80/8080"), corev1.IPv6Protocol),
			mixed[1:], "IPv6 http=8080/TCP: vm-2=2001:db8::2",
		},
		{"EW-29 new slices for both", families(aService("web", "http=80/8080"), dual...), mixed,
			"IPv4 http=8080/TCP: vm-1=10.0.0.1 vm-2=10.0.0.2\nIPv6 http=8080/TCP: vm-2=2001:db8::2"},
		{"no families", families(aService("web", "http=80/8080")), mixed,
			"IPv4 http=8080/TCP: vm-1=10.0.0.1 vm-2=10.0.0.2\nIPv6 http=8080/TCP: vm-2=2001:db8::2"},
		{"a port by name", aService("web", "80/http"),
			[]*decode.ExternalWorkload{two[0], aWorkload("vm-2", "10.0.0.2", "http=9090")},
			"IPv4 =8080/TCP: vm-1=10.0.0.1\nIPv4 =9090/TCP: vm-2=10.0.0.2"},
		{"a port of the other protocol", aService("web", "http=80/8080/UDP"),
			[]*decode.ExternalWorkload{two[0], aWorkload("vm-2", "10.0.0.2", "8080/UDP")},
			"IPv4 http=8080/UDP: vm-2=10.0.0.2\nIPv4: vm-1=10.0.0.1"},
		{
			"a port that is not declared", aService("web", "http=80/9999", "admin=81/8080"), two,
			"IPv4 admin=8080/TCP: vm-1=10.0.0.1 vm-2=10.0.0.2",
		},
		{"no target port",
			change(aService("web", "http=8080/8080"), func(s *corev1.Service) {
				s.Spec.Ports[0].TargetPort = intstr.IntOrString{}
			}), two,
			"IPv4 http=8080/TCP: vm-1=10.0.0.1 vm-2=10.0.0.2"},
		{"headless without ports", headless(aService("web")), two, "IPv4: vm-1=10.0.0.1 vm-2=10.0.0.2"},
		{"several addresses of a family", aService("web", "http=80/8080"),
			[]*decode.ExternalWorkload{aWorkload("vm-1", "10.0.0.2,10.0.0.1,10.0.0.2", "8080")},
			"IPv4 http=8080/TCP: vm-1=10.0.0.2+10.0.0.1"},
		{
			"no address",
			aService("web", "http=80/8080"),
			[]*decode.ExternalWorkload{two[0], aWorkload("vm-2", "", "8080")},
			"IPv4 http=8080/TCP: vm-1=10.0.0.1",
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := &world{t: t}
			w.sync(x.svc, x.workloads...)
			if got := w.String(); got != x.want {
				t.Errorf("slices\n%s\nwant\n%s", got, x.want)
			}
		})
	}
}

// TestTerminatingService checks that the slices of a terminating Service follow its workloads, and
// that no slice is created.
func TestTerminatingService(t *testing.T) {
	w, svc := &world{t: t}, aService("web", "80/8080")
	w.sync(svc, aWorkload("vm-1", "10.0.0.1", "8080"), aWorkload("vm-2", "10.0.0.2", "8080"))
	svc.DeletionTimestamp = &metav1.Time{}
	w.sync(svc, aWorkload("vm-2", "10.0.0.2", "8080"), aWorkload("vm-3", "10.0.0.3", "8080"))
	if got, want := w.String(), "IPv4 =8080/TCP: vm-2=10.0.0.2 vm-3=10.0.0.3"; got != want {
		t.Errorf("slices\n%s\nwant\n%s", got, want)
	}
}

// change applies changes to an object and returns it.
func change[T any](o T, fs ...func(T)) T {
	for _, f := range fs {
		f(o)
	}
	return o
}

func external(s *corev1.Service) *corev1.Service {
	s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.org"
	return s
}

// TestSliceShape checks every field of a new slice.
func TestSliceShape(t *testing.T) {
	svc := headless(aService("web", "http=80/8080"))
	svc.Labels = map[string]string{
		"team":                       "blue",
		discoveryv1.LabelManagedBy:   "x",
		discoveryv1.LabelServiceName: "y",
		corev1.IsHeadlessService:     "z",
	}
	vm := aWorkload("vm-1", "10.0.0.1", "8080")
	vm.Labels[corev1.LabelTopologyZone] = "zone-a"
	w := &world{t: t}
	s := w.put(svc, vm)

	if want := map[string]string{"team": "blue", discoveryv1.LabelServiceName: "web",
		discoveryv1.LabelManagedBy: "linkerd-external-workloads-controller",
		corev1.IsHeadlessService:   ""}; !maps.Equal(s.Labels, want) {
		t.Errorf("EW-30: labels %v, want %v", s.Labels, want)
	}
	svc.Spec.ClusterIP = "10.96.0.1"
	if p, _ := newPlan(
		t.Context(), svc, []*decode.ExternalWorkload{vm}, nil,
	); p.create[0].Labels[corev1.IsHeadlessService] != "" || len(p.create[0].Labels) != 3 {
		t.Errorf("EW-38: labels %v", p.create[0].Labels)
	}
	if s.GenerateName != "linkerd-external-web-" || s.Namespace != "ns" {
		t.Errorf("name %s, namespace %s", s.GenerateName, s.Namespace)
	}
	if o := s.OwnerReferences; len(o) != 1 || o[0].Kind != "Service" || o[0].APIVersion != "v1" || o[0].Name != "web" ||
		o[0].UID != svc.UID || !*o[0].Controller {
		t.Errorf("owners %+v", o)
	}
	e := s.Endpoints[0]
	if *e.Hostname != "vm-1" || *e.Zone != "zone-a" || !*e.Conditions.Ready || !*e.Conditions.Serving ||
		*e.Conditions.Terminating {
		t.Errorf("EW-30: endpoint %+v", e)
	}
	if want := (corev1.ObjectReference{
		Kind:      "ExternalWorkload",
		Namespace: "ns",
		Name:      "vm-1",
		UID:       vm.UID,
	}); *e.TargetRef != want {
		t.Errorf("target %+v, want %+v", *e.TargetRef, want)
	}
}

// TestStayTogether checks that workloads stay in full slices when a port changes.
//
// Behaviours: EW-36, EW-39.
func TestStayTogether(t *testing.T) {
	for _, x := range []struct {
		size, more int // size of the slices, and number of workloads added with the change
		writes     string
		stay       int
	}{
		{100, 0, "update 100 100 100", 300},
		{100, 20, "create 20, update 100 100 100", 300},
		{30, 0, "update 100 100 100, delete 30 30 30 30 30 30 30", 90},
	} {
		w, svc, list := &world{t: t}, aService("web", "80/http"), workloads(300+x.more)
		slices.Reverse(list)
		for part := range slices.Chunk(list[x.more:], x.size) {
			w.put(svc, part...)
		}
		before := w.homes()
		for _, x := range list {
			x.Spec.Ports[0].Port = 9090
		}
		if got := w.sync(svc, list...).String(); got != x.writes {
			t.Errorf("writes %q, want %q", got, x.writes)
		}
		stay := 0
		for name, home := range w.homes() {
			if before[name] == home {
				stay++
			}
		}
		if stay != x.stay {
			t.Errorf("%d of %d workloads stay in slices of %d, want %d", stay, len(before), x.size, x.stay)
		}
	}
}

// atPort returns workloads with the given names and port.
func atPort(port int, names ...string) (list []*decode.ExternalWorkload) {
	for _, name := range names {
		list = append(list, aWorkload(name, "10.0.0."+name, fmt.Sprint("http=", port)))
	}
	return list
}

// TestNoneMissing checks that each workload stays in some slice during all writes, even if two
// slices wait for each other. A Service that is being deleted is an exception, because it gets no
// new slices.
func TestNoneMissing(t *testing.T) {
	for _, x := range []struct {
		name    string
		after   [][]*decode.ExternalWorkload // before, slices have workloads 1 and 2 at 8080, and 3 and 4 at 9090
		port    string                       // of the Service, before named old
		deleted bool
		writes  string
	}{
		{
			"each has workloads of both",
			[][]*decode.ExternalWorkload{atPort(8080, "1", "3"), atPort(9090, "2", "4")},
			"new",
			false,
			"create 2, update 2, delete 2",
		},
		{
			"each gets a workload of the other",
			[][]*decode.ExternalWorkload{atPort(8080, "1", "4"), atPort(9090, "2", "3")},
			"old",
			false,
			"update 3 2 2",
		},
		{
			"no slice can be made",
			[][]*decode.ExternalWorkload{atPort(8080, "1", "3"), atPort(9090, "2", "4")},
			"new",
			true,
			"update 2 2",
		},
	} {
		w, svc := &world{t: t}, aService("web", "old=80/http")
		w.put(svc, atPort(8080, "1", "2")...)
		w.put(svc, atPort(9090, "3", "4")...)
		svc = aService("web", x.port+"=80/http")
		if x.deleted {
			svc.DeletionTimestamp = new(metav1.Now())
		}
		p, _ := newPlan(t.Context(), svc, slices.Concat(x.after...), w.slices)
		if got := p.String(); got != x.writes {
			t.Errorf("%s: writes %q, want %q", x.name, got, x.writes)
		}
		w.apply(p, func() {
			if n := len(w.homes()); n < 4 && !x.deleted {
				t.Errorf("%s: only %d workloads are in a slice between two writes:\n%s", x.name, n, w)
			}
		})
	}
}

// TestWriteFirst checks a slice that temporarily keeps endpoints for other slices. The slice has no
// more endpoints than API servers accept.
func TestWriteFirst(t *testing.T) {
	svc, w := aService("web", "80/8080"), &world{t: t}
	s := w.put(svc, aWorkload("vm-1", "10.0.0.1", "8080"))
	var p plan
	p.writeFirst(svc, &packed{
		slice:     s,
		group:     &group{},
		endpoints: s.Endpoints,
		gives:     make([]discoveryv1.Endpoint, maxKept),
	})
	got := p.update[0].Endpoints
	if len(got) != maxKept || got[0].TargetRef == nil {
		t.Errorf("%d endpoints, the first is %+v", len(got), got[0])
	}
}

// homes returns the slice of each workload.
func (w *world) homes() map[string]string {
	h := make(map[string]string)
	for _, s := range w.slices {
		for _, e := range s.Endpoints {
			h[e.TargetRef.Name] = s.Name
		}
	}
	return h
}

// TestProblems checks which parts of objects are left out and reported.
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
			"IPv4 =8080/TCP: vm-1=10.0.0.1", `vm-1: "10.0.0.256" is not an IP address`,
		},
		{
			"leading zero", aService("web", "80/8080"), aWorkload("vm-1", "010.0.0.1", "8080"), "",
			`vm-1: "010.0.0.1" is not an IP address`,
		},
		{
			"zone of an IP", families(aService("web", "80/8080")),
			aWorkload("vm-1", "2001:db8::1%eth0", "8080"), "", `vm-1: "2001:db8::1%eth0" is not an IP address`,
		},
		{
			"loopback", aService("web", "80/8080"), aWorkload("vm-1", "127.0.0.1", "8080"), "",
			"vm-1: 127.0.0.1 cannot be the address of an endpoint",
		},
		{
			"link-local", families(aService("web", "80/8080")), aWorkload("vm-1", "fe80::1", "8080"), "",
			"vm-1: fe80::1 cannot be the address of an endpoint",
		},
		{
			"multicast", aService("web", "80/8080"), aWorkload("vm-1", "239.0.0.1", "8080"), "",
			"vm-1: 239.0.0.1 cannot be the address of an endpoint",
		},
		{
			"this network", aService("web", "80/8080"), aWorkload("vm-1", "0.0.0.5", "8080"), "",
			"vm-1: 0.0.0.5 cannot be the address of an endpoint",
		},
		{
			"broadcast", aService("web", "80/8080"), aWorkload("vm-1", "255.255.255.255", "8080"), "",
			"vm-1: 255.255.255.255 cannot be the address of an endpoint",
		},
		{
			"unspecified", families(aService("web", "80/8080")), aWorkload("vm-1", "::", "8080"), "",
			"vm-1: :: cannot be the address of an endpoint",
		},
		{
			"IPv4 in IPv6", aService("web", "80/8080"), aWorkload("vm-1", "::ffff:10.0.0.1", "8080"),
			"IPv4 =8080/TCP: vm-1=10.0.0.1", "",
		},
		{
			"unreadable", aService("web", "80/8080"),
			change(aWorkload("vm-1", "10.0.0.1", "8080"), func(w *decode.ExternalWorkload) { w.Invalid = "spec: no" }),
			"", "vm-1: cannot be read: spec: no",
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
			"IPv4 =8080/TCP: " + long + "=10.0.0.1", long + ": is not a DNS label, so it cannot be a hostname",
		},
		{
			"a name with dots", headless(aService("web", "80/8080")), aWorkload("vm.1", "10.0.0.1", "8080"),
			"IPv4 =8080/TCP: vm.1=10.0.0.1", "vm.1: is not a DNS label, so it cannot be a hostname",
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
