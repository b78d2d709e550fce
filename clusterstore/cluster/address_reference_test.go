package cluster

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
	"isthmus/internal/spec"
)

// The tests look up every address that a random object can have, and hostnames.
var (
	askedIPs       = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1"}
	askedPorts     = []uint16{25, 80, 81}
	askedHostnames = []string{"h", "i"}
)

func drawPlaced(t *rapid.T, resource string) (string, metav1.Object) {
	key, o := draw(t, resource)
	ips := rapid.SliceOfNDistinct(rapid.SampledFrom(askedIPs), 0, 2, rapid.ID[string]).Draw(t, "ips")
	switch o := o.(type) {
	case *corev1.Pod:
		if len(ips) > 0 {
			at(ips...)(o)
		}
		onHost(rapid.SampledFrom(askedIPs).Draw(t, "host"))(o)
		for i := range o.Spec.Containers[0].Ports {
			o.Spec.Containers[0].Ports[i].HostIP = rapid.SampledFrom([]string{
				"", "", "0.0.0.0", "::", "127.0.0.1", "10.0.0.1", "10.0.0.2", "fd00::1",
			}).Draw(t, "hostIP")
		}
		phases := []corev1.PodPhase{"Running", "Running", "Running", "Pending", "Failed", "Succeeded", ""}
		phase(rapid.SampledFrom(phases).Draw(t, "phase"))(o)
		o.Spec.HostNetwork = rapid.IntRange(0, 5).Draw(t, "hostNetwork") == 0
		if rapid.IntRange(0, 4).Draw(t, "terminating") == 0 {
			terminating(o)
		}
	case *decode.ExternalWorkload:
		workloadAt(o, ips...)
	case *corev1.Service:
		if len(ips) > 0 && rapid.Bool().Draw(t, "placed") {
			clusterIP(o, ips...)
		}
		if rapid.Bool().Draw(t, "annotated") {
			serviceAnnotation(o, opaqueAnnotation, rapid.SampledFrom([]string{"", "http", "81"}).Draw(t, "opaque"))
		}
	}
	return key, o
}

// TestAddressReference applies random events in random order. It compares the object that each
// address and hostname belongs to with the reference. It also checks that each change is reported.
//
// Behaviours: P-07, P-09, P-10, P-11, P-13, P-14, P-17, P-23, P-24, P-25, P-27, I-01, I-02, I-03, O-02,
// O-05, W-01, W-02, W-03, LP-02, LP-04, LP-12, LP-13, LP-14, LP-16, LP-17, LP-24, LP-25, LP-29, PP-04.
func TestAddressReference(t *testing.T) { rapid.Check(t, compareAddresses) }

// FuzzAddressReference is TestAddressReference with events chosen by the fuzzer.
func FuzzAddressReference(f *testing.F) { f.Fuzz(rapid.MakeFuzz(compareAddresses)) }

func compareAddresses(t *rapid.T) {
	cfg := testConfig()
	withAddresses(&cfg)
	w := &world{Local: newOn(newFakeAPI(), cfg)}
	w.goLive()
	all, last := make(objects), make(map[string]string)
	e := events{
		world: w,
		all:   all,
		draw:  drawPlaced,
		resources: []string{
			"endpointslices",
			"pods",
			"pods",
			"pods",
			"services",
			"services",
			"replicasets",
			"servers",
			"servers",
			"externalworkloads",
		},
	}
	e.run(t, func(t *rapid.T) {
		topics := w.markedTopics()
		ns := all.namespace()
		w.checkAddresses(t, all, ns, last, topics)
		w.checkInstances(t, ns, last, topics)
		w.checkConflicts(t)
	})
	if n := w.cache.size() + w.cache.local.size(); n != 0 {
		t.Fatalf("%d objects are still cached: %+v", n, w.cache.local)
	}
}

func (w *world) checkAddresses(
	t *rapid.T, all objects, ns *spec.Namespace, last map[string]string, marked map[Topic]time.Time,
) {
	for _, ip := range askedIPs {
		a := netip.MustParseAddr(ip)
		_, reported := marked[Topic{IP: a, AddressOwner: true}]
		checkReported(t, last, "the owner of "+ip, w.AddressOwner(a), reported)
		for _, port := range askedPorts {
			addr := netip.AddrPortFrom(netip.MustParseAddr(ip), port)
			got, want := foundText(w.LookupAddress(addr)), all.referenceAt(ns, addr)
			if got != want {
				t.Fatalf("%v belongs to\n%s\nwant\n%s", addr, got, want)
			}
			_, reported := marked[Topic{IP: addr.Addr()}]
			checkReported(t, last, addr.String(), got+w.spec(w.LookupAddress(addr).Service), reported)
		}
	}
}

// foundText describes the object that an address belongs to in the reference's words.
func foundText(f Found) string {
	if f.Claimed != "" || f.Service != nil {
		return describeFound(f)
	}
	return fmt.Sprintf("%+v", modelled(f.Endpoint))
}

// checkConflicts checks that the known conflicts are exactly the ambiguous addresses.
func (w *world) checkConflicts(t *rapid.T) {
	known := make(map[string]string)
	list, _ := w.AddressConflicts()
	for _, x := range list {
		if known[x.Address] = x.Claimed; len(x.Objects) < 2 || x.Since.IsZero() {
			t.Fatalf("%+v", x)
		}
	}
	for _, ip := range askedIPs {
		for _, port := range askedPorts {
			addr := netip.AddrPortFrom(netip.MustParseAddr(ip), port)
			if got, want := known[ip]+known[addr.String()], w.LookupAddress(addr).Claimed; got != want {
				t.Fatalf("conflict at %v: %q, want %q", addr, got, want)
			}
		}
	}
}

func (w *world) checkInstances(
	t *rapid.T, ns *spec.Namespace, last map[string]string, marked map[Topic]time.Time,
) {
	for _, service := range []string{"a", "b"} {
		id := federation.ServiceID{Namespace: "ns", Name: service}
		_, reported := marked[Topic{Service: id}]
		checkReported(t, last, service, w.spec(w.Service(id)), reported)
		_, reported = marked[Topic{Service: id, Instances: true}]
		checkReported(t, last, "instances of "+service, fmt.Sprint(w.Service(id) != nil), reported)
		for _, hostname := range askedHostnames {
			for _, port := range askedPorts {
				name, got := fmt.Sprintf("%s.%s:%d", hostname, service, port), ""
				if e := w.Instance(id, hostname, port); e != nil {
					got = fmt.Sprintf("%+v", modelled(e))
				}
				if want := referenceInstance(ns, service, hostname, port); got != want {
					t.Fatalf("%s is\n%s\nwant\n%s", name, got, want)
				}
				checkReported(t, last, name, got, reported)
			}
		}
	}
}

// spec renders the fields of a Service that profiles contain.
func (w *world) spec(s *Service) string {
	if s == nil {
		return ""
	}
	return fmt.Sprint(" with ", s.Ports, s.OpaquePorts, s.ExternalName)
}

func checkReported(t *rapid.T, last map[string]string, what, now string, reported bool) {
	if before, known := last[what]; known && before != now && !reported {
		t.Fatalf("%s was %q and is %q, and the change was not reported", what, before, now)
	}
	last[what] = now
}

// referenceAt finds the object that an address belongs to with package spec.
func (o objects) referenceAt(ns *spec.Namespace, addr netip.AddrPort) string {
	var services []string
	for _, key := range slices.Sorted(maps.Keys(o["services"])) {
		s := o["services"][key].(*corev1.Service)
		if s.Spec.Type != corev1.ServiceTypeExternalName && slices.Contains(s.Spec.ClusterIPs, addr.Addr().String()) {
			services = append(services, s.Namespace+"/"+s.Name)
		}
	}
	if len(services) == 1 {
		return "Service " + services[0]
	}
	if n := len(services); n > 1 {
		return fmt.Sprintf("claimed by %d Services with cluster IP %v", n, addr.Addr())
	}
	var own, host, draining, bound []*corev1.Pod
	for _, x := range o["pods"] {
		p := x.(*corev1.Pod)
		if p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" ||
			p.DeletionTimestamp != nil && p.Status.Phase != "Running" {
			continue
		}
		isOwn := !p.Spec.HostNetwork &&
			slices.ContainsFunc(p.Status.PodIPs, func(i corev1.PodIP) bool { return i.IP == addr.Addr().String() })
		isHost := p.Status.HostIP == addr.Addr().String() && hasHostPort(p, addr)
		switch {
		case !isOwn && !isHost && hasHostPort(p, addr) && p.DeletionTimestamp == nil:
			bound = append(bound, p)
		case (isOwn || isHost) && p.DeletionTimestamp != nil:
			draining = append(draining, p)
		case isOwn:
			own = append(own, p)
		case isHost:
			host = append(host, p)
		}
	}
	var workloads []*decode.ExternalWorkload
	for _, x := range o["externalworkloads"] {
		v := x.(*decode.ExternalWorkload)
		if v.Invalid == "" &&
			slices.ContainsFunc(
				v.Spec.WorkloadIPs,
				func(i decode.WorkloadIP) bool { return i.IP == addr.Addr().String() },
			) &&
			slices.ContainsFunc(v.Spec.Ports, func(q decode.PortSpec) bool {
				return q.Port == int32(addr.Port()) && referenceTCP(corev1.Protocol(q.Protocol))
			}) {
			workloads = append(workloads, v)
		}
	}
	hasIP := func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.PodIPs, func(i corev1.PodIP) bool { return i.IP == addr.Addr().String() })
	}
	switch {
	case len(own) > 1:
		return fmt.Sprintf("claimed by %d Pods with IP %v", len(own), addr.Addr())
	case len(own) == 1:
		return referenceResident(ns, own[0], addr)
	case len(host) > 1:
		return fmt.Sprintf("claimed by %d Pods with host port %v", len(host), addr)
	case len(host) == 1:
		return referenceHostPort(ns, host[0], addr)
	case len(draining) == 1 && (draining[0].Spec.HostNetwork || !hasIP(draining[0])):
		return referenceHostPort(ns, draining[0], addr)
	case len(draining) == 1:
		return referenceResident(ns, draining[0], addr)
	case len(workloads) > 1:
		return fmt.Sprintf("claimed by %d ExternalWorkloads at %v", len(workloads), addr)
	case len(workloads) == 1:
		return referenceWorkload(ns, workloads[0], addr)
	case len(bound) > 1:
		return fmt.Sprintf("claimed by %d Pods with host port %v", len(bound), addr)
	case len(bound) == 1:
		return referenceHostPort(ns, bound[0], addr)
	}
	return referenceBare(addr)
}

// hasHostPort reports whether the spec of a Pod has a host port at an address.
func hasHostPort(p *corev1.Pod, addr netip.AddrPort) bool {
	return slices.ContainsFunc(p.Spec.Containers[0].Ports, func(q corev1.ContainerPort) bool {
		if !referenceTCP(q.Protocol) {
			return false
		}
		switch q.HostIP {
		case "", "0.0.0.0", "::":
			return q.HostPort == int32(addr.Port()) && p.Status.HostIP == addr.Addr().String()
		}
		return q.HostPort == int32(addr.Port()) && q.HostIP == addr.Addr().String()
	})
}

func referenceTCP(p corev1.Protocol) bool { return p == "" || p == "TCP" }

func referenceBare(addr netip.AddrPort) string {
	return fmt.Sprintf("%+v", spec.Backend{Addr: addr, Opaque: addr.Port() == 25})
}

func referenceResident(ns *spec.Namespace, p *corev1.Pod, addr netip.AddrPort) string {
	if p.Status.Phase != "Running" {
		return referenceBare(addr)
	}
	return fmt.Sprintf("%+v", ns.OfPod(p, addr))
}

func referenceWorkload(ns *spec.Namespace, w *decode.ExternalWorkload, addr netip.AddrPort) string {
	of := modelledWorkload(w)
	return fmt.Sprintf("%+v", ns.OfWorkload(&of, addr))
}

// referenceHostPort describes a Pod at a host port. The host port leads to port 8080, the only port
// of these Pods. Nothing listens at the proxy's inbound port of the node.
func referenceHostPort(ns *spec.Namespace, p *corev1.Pod, addr netip.AddrPort) string {
	if p.Status.Phase != "Running" {
		return referenceBare(addr)
	}
	b := ns.OfPod(p, addr)
	behind := ns.OfPod(p, netip.MustParseAddrPort("10.0.0.1:8080"))
	b.Opaque = b.Opaque || behind.Opaque
	b.InboundPort = 0
	return fmt.Sprintf("%+v", b)
}

// referenceInstance finds the object that a hostname of a Service belongs to.
func referenceInstance(ns *spec.Namespace, service, hostname string, port uint16) string {
	for _, ready := range []bool{true, false} {
		for _, name := range slices.Sorted(maps.Keys(ns.EndpointSlices)) {
			l := ns.EndpointSlices[name]
			if spec.ServiceOf(l) != service || l.AddressType == "FQDN" {
				continue
			}
			for _, e := range l.Endpoints {
				served := (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(l.Ports) > 0
				if e.Hostname == nil || *e.Hostname != hostname || served != ready ||
					e.TargetRef != nil && e.TargetRef.Kind == "Node" {
					continue
				}
				return referenceTarget(
					ns,
					e.TargetRef,
					netip.AddrPortFrom(netip.MustParseAddr(e.Addresses[0]), port),
				)
			}
		}
	}
	return ""
}

func referenceTarget(ns *spec.Namespace, ref *corev1.ObjectReference, addr netip.AddrPort) string {
	if ref == nil {
		return referenceBare(addr)
	}
	if ref.Kind == "ExternalWorkload" {
		w, ok := ns.Workloads[ref.Name]
		if !ok || w.Invalid {
			return ""
		}
		return fmt.Sprintf("%+v", ns.OfWorkload(&w, addr))
	}
	p, ok := ns.Pods[ref.Name]
	if !ok || p.Status.PodIP == "" {
		return ""
	}
	return referenceResident(ns, p, netip.AddrPortFrom(netip.MustParseAddr(p.Status.PodIP), addr.Port()))
}
