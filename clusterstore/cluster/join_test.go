package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/federation"
)

// TestAddresses checks the offered addresses and ports in situations that TestJoinReference does
// not produce.
func TestAddresses(t *testing.T) {
	web := aService("web", "http=80", "=81", "admin=90")
	nilName := aSlice("s", "web", "=8081", "10.0.0.1")
	nilName.Ports[0].Name = nil
	elsewhere := aSlice("s", "web", "http=8080", "10.0.0.1 pod=p")
	elsewhere.Endpoints[0].TargetRef.Namespace = "other"
	noNamespace := aSlice("s", "web", "http=8080", "10.0.0.1 pod=p")
	noNamespace.Endpoints[0].TargetRef.Namespace = ""
	noAddress := aSlice("s", "web", "http=8080", "10.0.0.1", "10.0.0.2")
	noAddress.Endpoints[0].Addresses = nil
	for _, x := range []struct {
		name    string
		port    uint16
		objects []metav1.Object
		want    string
	}{
		{"a nil name is the empty name", 81, []metav1.Object{web, nilName}, "10.0.0.1:8081"},
		{"impossible number", 80, []metav1.Object{web, aSlice("s", "web", "http=65536", "10.0.0.1")}, ""},
		{"negative number", 80, []metav1.Object{web, aSlice("s", "web", "http=-1", "10.0.0.1")}, ""},
		{"the first of two ports of one name", 80,
			[]metav1.Object{web, aSlice("s", "web", "http=1,http=2", "10.0.0.1")}, "10.0.0.1:1"},
		{"several addresses of one endpoint", 80,
			[]metav1.Object{web, aSlice("s", "web", "http=1", "10.0.0.3+10.0.0.1")}, "10.0.0.1:1 10.0.0.3:1"},
		{"IPv4 as IPv6", 80, []metav1.Object{web, aSlice("s", "web", "http=1", "::ffff:10.0.0.3", "fd00::1")},
			"10.0.0.3:1 [fd00::1]:1"},
		{"no addresses at all", 80,
			[]metav1.Object{web, aSlice("s", "web", "http=1", "x", "10.0.0.300", "fe80::1%eth0", "10.0.0.1")},
			"10.0.0.1:1"},
		{"addresses of the local host", 80,
			[]metav1.Object{web, aSlice("s", "web", "http=1", "127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0",
				"169.254.1.1", "224.0.0.1", "10.0.0.1")}, "10.0.0.1:1"},
		{"endpoint without address", 80, []metav1.Object{web, noAddress}, "10.0.0.2:8080"},
		{"pod", 80, []metav1.Object{web, aPod("p"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p")},
			"10.0.0.1:8080"},
		{"pod of another namespace", 80, []metav1.Object{web, aPod("p"), elsewhere}, ""},
		{"pod without namespace", 80, []metav1.Object{web, aPod("p"), noNamespace}, "10.0.0.1:8080"},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.put(x.objects...)
			share := w.read("web", x.port)
			if share.State != federation.Present {
				t.Errorf("state %v", share.State)
			}
			if got := addrs(share); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}

// TestEndpoints checks Endpoints objects. Their addresses that are not ready count as known.
//
// Behaviours: E-01, E-04, E-09, E-23, PR-34.
func TestEndpoints(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Rules.EndpointSlices = false })
	o := &coreEndpoints{ObjectMeta: inNS("web"), Subsets: []coreEndpointSubset{{
		Ports: []corev1.EndpointPort{{Name: "http", Port: 8080}, {Name: "admin", Port: 9000}},
		Addresses: []corev1.EndpointAddress{
			{IP: "10.0.0.2", Hostname: "h2"},
			{IP: "10.0.0.1", TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "p"}},
		},
		NotReadyAddresses: []corev1.EndpointAddress{
			{
				IP:        "10.0.0.9",
				Hostname:  "h9",
				NodeName:  new("n"),
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "q"},
			},
			{IP: "10.0.0.8", TargetRef: &corev1.ObjectReference{Kind: "Node", Name: "x"}}, {IP: "10.0.0.2"}},
	}, {
		Ports:     []corev1.EndpointPort{{Name: "http", Port: 8081}},
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.3"}},
	}, {
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.4"}},
	}}}
	w.put(aService("web", "http=80", "admin=90"), o)
	check := func(port uint16, want string) {
		t.Helper()
		if got := addrs(w.read("web", port)); got != want {
			t.Errorf("port %d: got %q, want %q", port, got, want)
		}
	}
	check(80, "10.0.0.2:8080 10.0.0.3:8081")
	got := strings.Join(describeUnready(w.read("web", 80).Slices[0]), ", ")
	if got != "unready pod 10.0.0.9:8080 node=n host=h9 twin=ns/q" {
		t.Errorf("not ready: %s", got)
	}
	w.put(aPod("p"))
	check(80, "10.0.0.1:8080 10.0.0.2:8080 10.0.0.3:8081")
	check(90, "10.0.0.1:9000 10.0.0.2:9000")
	check(5959, "10.0.0.1:5959 10.0.0.2:5959 10.0.0.3:5959 10.0.0.4:5959")
	w.del(aPod("p"))
	check(90, "10.0.0.2:9000")
	if e := w.read("web", 90).Slices[0].Endpoints[0]; e.Hostname != "h2" || e.Kind != federation.Address {
		t.Errorf("%+v", e)
	}
	w.del(o)
	check(80, "")
}

// TestNotText checks that only an endpoint whose text cannot be sent is omitted.
func TestNotText(t *testing.T) {
	w := newWorld(t, nil)
	w.put(
		aService("web"),
		aPod("p"),
		aPod("q", podLabel(templateHashLabel, "\xff")),
		aPod("r\xff"),
		aSlice(
			"s",
			"web",
			"http=1",
			"10.0.0.1 pod=p",
			"10.0.0.2 pod=q",
			"10.0.0.3 pod=r\xff",
			"10.0.0.4 pod=p zone=\xff",
			"10.0.0.5",
		),
	)
	if got, want := addrs(w.read("web", 1)), "10.0.0.1:1 10.0.0.5:1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
