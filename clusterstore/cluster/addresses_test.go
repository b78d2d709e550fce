package cluster

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/internal/adminapi"
)

// TestOwner checks which object an address belongs to. Each change of that object is reported.
// Other changes of a Pod are not reported.
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
		t.Error("a change of labels was reported as a change of the object")
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

// TestAssignedTo checks which addresses are assigned to objects of the local cluster. They include
// addresses that Owner does not know.
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

	// Addresses are released together with their objects.
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

// conflictLines renders the known conflicts without their times.
func conflictLines(c *Local) (lines []string) {
	list, more := c.AddressConflicts()
	for _, x := range list {
		lines = append(lines, fmt.Sprintf("%s: %s %q", x.Address, x.Claimed, x.Objects))
	}
	slices.Sort(lines)
	if more > 0 {
		lines = append(lines, fmt.Sprint(more, " more"))
	}
	return lines
}

// TestConflicts checks that each kind of conflict is listed with its objects while the conflict
// lasts. This includes conflicts that exist at the start.
func TestConflicts(t *testing.T) {
	objects := []metav1.Object{
		aPod("a", at("10.0.0.1", "fd00::1")), aPod("b", at("10.0.0.1")), aPod("c", at("fd00::1", "10.0.0.1")),
		aPod("d", at("10.0.0.1")),
		aPod("e", at("10.0.0.5"), onHost("10.0.9.1"), namedPort("", 80, 7777), namedPort("", 81, 7778)),
		aPod("f", at("10.0.0.6"), onHost("10.0.9.1"), namedPort("", 80, 7777)),
		aPod("g", at("10.0.0.7"), onHost("10.0.9.1"), boundPort(80, 7778, "10.0.9.2")),
		clusterIP(aService("x"), "10.1.0.1"), clusterIP(aService("y"), "10.1.0.1"),
		workloadAt(aWorkload("v", "http=80", "other=81"), "10.0.8.1"),
		workloadAt(aWorkload("w", "http=80"), "10.0.8.1"),
	}
	want := []string{
		`10.0.0.1: 4 Pods with IP 10.0.0.1 ["Pod ns/a" "Pod ns/b" "Pod ns/c"]`,
		`10.0.8.1:80: 2 ExternalWorkloads at 10.0.8.1:80 ["ExternalWorkload ns/v" "ExternalWorkload ns/w"]`,
		`10.0.9.1:7777: 2 Pods with host port 10.0.9.1:7777 ["Pod ns/e" "Pod ns/f"]`,
		`10.1.0.1: 2 Services with cluster IP 10.1.0.1 ["Service ns/x" "Service ns/y"]`,
		`fd00::1: 2 Pods with IP fd00::1 ["Pod ns/a" "Pod ns/c"]`,
	}
	inCluster(t, func(c *Config, _ *fakeAPI) { withAddresses(c) }, func(r *running) {
		if got := conflictLines(r.Local); !slices.Equal(got, want) {
			t.Fatalf("at the start: %q", got)
		}
	}, objects...)
	w := newWorld(t, withAddresses)
	w.put(objects...)
	w.markedTopics()
	if got := conflictLines(w.Local); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	w.put(aPod("f", at("10.0.0.6"), onHost("10.0.9.1"), namedPort("", 80, 7777), terminating))
	w.del(objects[0], objects[7], objects[9])
	w.markedTopics()
	afterwards := []string{`10.0.0.1: 3 Pods with IP 10.0.0.1 ["Pod ns/b" "Pod ns/c" "Pod ns/d"]`}
	if got := conflictLines(w.Local); !slices.Equal(got, afterwards) {
		t.Errorf("afterwards: %q", got)
	}
	w.del(objects[1:]...)
	w.markedTopics()
	if n := len(w.cache.local.conflicts.byIP); n != 0 {
		t.Errorf("%d conflicts are still known", n)
	}
}

// TestConflictSince checks that a conflict keeps its start time while its objects change. Another
// conflict at the same IP has its own start time.
func TestConflictSince(t *testing.T) {
	w := newWorld(t, withAddresses)
	host := func(name string, ports ...int32) *corev1.Pod {
		p := aPod(name, at("10.0.0.1"), onHost("10.0.9.1"))
		p.Status.PodIP, p.Status.PodIPs = "", nil
		for _, n := range ports {
			namedPort("", 80, n)(p)
		}
		return p
	}
	find := func(minute int64, objects ...metav1.Object) []adminapi.AddressConflict {
		w.put(objects...)
		w.markedTopics()
		w.cache.local.findConflicts(
			w.cache.local.addresses.locations[w.cache.pods.get("ns/a")].hosts[0],
			time.Unix(60*minute, 0),
		)
		list, _ := w.AddressConflicts()
		return list
	}
	find(1, host("a", 1, 2))
	first := find(2, host("b", 1))
	second := find(3, host("b", 1, 2), host("c", 1))
	if len(first) != 1 || len(second) != 2 || second[0].Address != "10.0.9.1:1" ||
		!second[0].Since.Equal(first[0].Since) || !second[1].Since.After(first[0].Since) {
		t.Errorf("%+v, then %+v", first, second)
	}
}

// TestManyConflicts checks that the list of conflicts is bounded.
func TestManyConflicts(t *testing.T) {
	w := newWorld(t, withAddresses)
	v, u := aWorkload("v"), aWorkload("u")
	for n := range 1000 {
		workloadPort := fmt.Sprintf("p%d=%d", n, n+1)
		v.Spec.Ports = append(v.Spec.Ports, aWorkload("v", workloadPort).Spec.Ports...)
		u.Spec.Ports = append(u.Spec.Ports, aWorkload("u", workloadPort).Spec.Ports...)
	}
	w.put(workloadAt(v, "10.0.8.1"), workloadAt(u, "10.0.8.1"))
	for i := range 200 {
		ip := fmt.Sprintf("10.0.1.%d", i+1)
		w.put(aPod(fmt.Sprint("a", i), at(ip)), aPod(fmt.Sprint("b", i), at(ip)))
	}
	w.markedTopics()
	list, more := w.AddressConflicts()
	if len(list) != maxConflicts || more != 200+maxConflictsAt-maxConflicts {
		t.Errorf("%d conflicts are listed, and %d more counted", len(list), more)
	}
}

// TestCrowdedPorts checks that the search for conflicts at an IP examines a bounded number of
// ports.
func TestCrowdedPorts(t *testing.T) {
	ip := netip.MustParseAddr("10.0.9.1")
	x := newAddressIndex()
	at := new(location)
	for port := range uint16(60_000) {
		at.hostPorts = append(at.hostPorts, hostPort{port: port + 1, container: 80})
	}
	for _, key := range []string{"ns/a", "ns/b"} {
		p := &pod{key: key}
		x.locations[p] = at
		x.pods[ip] = append(x.pods[ip], p)
	}
	if list := x.crowdedPorts(ip); len(list) != 0 {
		t.Errorf("%d ports, though the first %d differ", len(list), maxPortsAt)
	}
	at.hostPorts = at.hostPorts[:maxPortsAt/2]
	if list := x.crowdedPorts(ip); len(list) != maxCrowdedAt || list[0] != 1 {
		t.Errorf("%d ports will be examined", len(list))
	}
}
