package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
)

const (
	podDescribed    = " namespace:ns pod:p serviceaccount:default node=node-1 twin=ns/p"
	meshedDescribed = " control_plane_ns:linkerd" + podDescribed + " id=" + defaultID + " sni=" + defaultID +
		" meshed"
	defaultID         = "default.ns.serviceaccount.identity.linkerd.cluster.local"
	workloadDescribed = " external_workload:v namespace:ns twin=workload/ns/v uri=spiffe://root/v sni=v.example meshed"
)

// TestLookupAddress checks which object an address belongs to, for any order of events. It covers
// objects that TestAddressReference does not create.
func TestLookupAddress(t *testing.T) {
	aliased := aPod("p", at("10.0.0.1"), onHost("192.168.0.1"), namedPort("", 80, 7777))
	initPort := aPod(
		"p",
		at("10.0.0.1"),
		onHost("192.168.0.1", "fd00::1"),
		namedPort("a", 1, 22345),
		namedPort("b", 2, 22346),
		sidecarPort("c", 3),
	)
	initPort.Spec.InitContainers[0].Ports[0].HostPort = 22344
	overUDP := aPod("q", at("10.0.0.2"), onHost("192.168.0.1"), namedPort("dns", 53, 7777))
	overUDP.Spec.Containers[0].Ports[0].Protocol = corev1.ProtocolUDP
	onlyIP := aPod("p", at("10.0.0.1"))
	onlyIP.Status.PodIPs = nil
	for _, x := range []struct {
		name, addr string
		objects    []metav1.Object
		want       string
	}{
		{"headless", "10.1.0.1:80", []metav1.Object{clusterIP(aService("web", "http=80"), "None")}, "10.1.0.1:80"},
		{"a Service's address twice", "10.1.0.1:80", []metav1.Object{clusterIP(aService("a"), "10.1.0.1", "10.1.0.1")},
			"Service ns/a"},
		{"a Pod with the older field", "10.0.0.1:8989", []metav1.Object{onlyIP}, "10.0.0.1:8989" + podDescribed},
		{"W-01 host port of an init container", "192.168.0.1:22344", []metav1.Object{initPort},
			"192.168.0.1:22344" + podDescribed},
		{"W-01 another host port", "[fd00::1]:22346", []metav1.Object{initPort}, "[fd00::1]:22346" + podDescribed},
		{"the same port of another protocol", "192.168.0.1:7777", []metav1.Object{aliased, overUDP},
			"192.168.0.1:7777" + podDescribed},
		{"can't be sent", "10.0.0.1:80",
			[]metav1.Object{aPod("p", at("10.0.0.1"), podLabel(templateHashLabel, "\xff"))}, "10.0.0.1:80"},
	} {
		for _, reversed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reversed %v", x.name, reversed), func(t *testing.T) {
				w := newWorld(t, withAddresses)
				objects := slices.Clone(x.objects)
				if reversed {
					slices.Reverse(objects)
				}
				w.put(objects...)
				if got := w.at(x.addr); got != x.want {
					t.Errorf("got  %s\nwant %s", got, x.want)
				}
				w.del(objects...)
				bare := strings.Fields(x.addr)[0]
				if got := w.at(x.addr); got != bare && got != bare+" opaque" {
					t.Errorf("after all objects were deleted: %s", got)
				}
				if n := w.cache.size() + w.cache.local.size(); n != 0 {
					t.Errorf("%d objects are still cached", n)
				}
			})
		}
	}
}

// size returns the number of entries in all indexes.
func (l *Local) size() int {
	a := &l.addresses
	return len(a.locations) + len(a.pods) + len(a.workloads) + len(a.services) + len(a.exposed) +
		len(a.nodes) + len(l.managed) + len(l.profiles.byKey) + l.profiles.rejected
}

// TestInstance checks which object a hostname of a Service belongs to. It covers objects that
// TestAddressReference does not create.
func TestInstance(t *testing.T) {
	gateway := aSlice("s", "web", "http=4143", "10.0.0.9 host=h")
	gateway.Annotations = map[string]string{
		gatewayIdentityAnnotation: "gw.id",
		remoteNameAnnotation:      "h.web.ns.svc.east.local",
	}
	odd := gateway.DeepCopy()
	odd.Annotations[remoteNameAnnotation] = "\xff"
	for _, x := range []struct {
		name    string
		port    uint16
		objects []metav1.Object
		want    string
	}{
		{"a gateway", 80, []metav1.Object{gateway}, "10.0.0.9:80 id=gw.id authority=h.web.ns.svc.east.local:80"},
		{"a gateway that can't be sent", 80, []metav1.Object{odd}, "10.0.0.9:80"},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, reversed := range []bool{false, true} {
				w := newWorld(t, withAddresses)
				if reversed {
					slices.Reverse(x.objects)
				}
				w.put(x.objects...)
				if got := w.instance(x.port); got != x.want {
					t.Errorf("reversed %v: got  %s\nwant %s", reversed, got, x.want)
				}
				w.del(x.objects...)
				if n := w.cache.size() + w.cache.local.size(); n != 0 {
					t.Errorf("%d objects are still cached", n)
				}
			}
		})
	}
}

// instance renders the endpoint with hostname h of the Service web.
func (w *world) instance(port uint16) string {
	if e := w.Instance(federation.ServiceID{Namespace: "ns", Name: "web"}, "h", port); e != nil {
		return describe(e)
	}
	return ""
}

// TestUnservedStay checks that an address that has a hostname but is not ready is never offered.
// Linked clusters do not cache such addresses, because they have no index of addresses.
func TestUnservedStay(t *testing.T) {
	slice := aSlice("s", "web", "http=80", "10.0.0.1 host=h unready", "10.0.0.2")
	portless := aSlice("t", "web", "", "10.0.0.3 host=h")
	w := newWorld(t, withAddresses)
	w.put(aService("web", "http=80"), slice, portless)
	for _, port := range []uint16{80, 9999} {
		if got := addrs(w.read("web", port)); !strings.HasPrefix(got, "10.0.0.2:") || strings.Contains(got, " ") {
			t.Errorf("offered: %s", got)
		}
	}
	remote := newWorld(t, nil)
	remote.put(
		aService("web", "http=80"),
		slice,
		portless,
		aPod("p", at("10.0.0.1")),
		workloadAt(aWorkload("v", "http=80"), "10.2.0.1"),
	)
	for _, l := range remote.cache.slices.byKey {
		for _, a := range l.subsets[0].addresses {
			if a.hostname != nil && a.facts.Value().leftOut {
				t.Errorf("cached: %+v", a)
			}
		}
	}
	for _, r := range remote.resources {
		if r.Name() == "serviceprofiles" {
			t.Error("a linked cluster lists ServiceProfiles")
		}
	}
}

// withSlices makes a cluster the local cluster. It marks the slices that Isthmus writes with "us".
// Changes of ExternalWorkloads are appended to changed.
func withSlices(changed *[]string) func(*Config) {
	return func(c *Config) {
		withAddresses(c)
		c.local.SliceManager = "us"
		c.local.WorkloadChanged = func(before, after *decode.ExternalWorkload) {
			*changed = append(*changed, workloadText(before)+" -> "+workloadText(after))
		}
	}
}

func workloadText(o *decode.ExternalWorkload) string {
	if o == nil {
		return "none"
	}
	return fmt.Sprintf(
		"%s %s %v %v %v %v%s",
		o.Name,
		o.UID,
		o.Labels,
		o.Spec.WorkloadIPs,
		o.Spec.Ports,
		o.Status.Conditions,
		o.Invalid,
	)
}

// TestSelecting checks the cached fields of a Service with a selector, from which slices are made.
// Each change is reported.
func TestSelecting(t *testing.T) {
	w := newWorld(t, withSlices(new([]string)))
	w.put(aService("web", "http=80"))
	if got := w.Selecting(federation.ServiceID{Namespace: "ns", Name: "web"}); got == nil ||
		len(got.Spec.Selector) > 0 {
		t.Errorf("without a selector: %+v", got)
	}
	for _, change := range []func(*corev1.Service){
		func(o *corev1.Service) { o.Spec.Selector = map[string]string{"app": "vm"} },
		func(o *corev1.Service) { o.UID = "another" },
		func(o *corev1.Service) { o.Labels = map[string]string{"team": "blue"} },
		func(o *corev1.Service) { o.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} },
		func(o *corev1.Service) { o.Spec.ClusterIP = corev1.ClusterIPNone },
		func(o *corev1.Service) { o.Spec.Ports[0].TargetPort = intstr.FromString("http") },
		func(o *corev1.Service) { o.Spec.Ports[0].TargetPort = intstr.FromInt32(8080) },
		func(o *corev1.Service) { o.Spec.Ports[0].Protocol = corev1.ProtocolUDP },
		func(o *corev1.Service) { o.DeletionTimestamp = &metav1.Time{Time: metav1.Unix(5, 0).Time} },
	} {
		svc := aService("web", "http=80")
		svc.Spec.Selector = map[string]string{"app": "web"}
		w.put(svc)
		w.marked()
		change(svc)
		w.put(svc)
		got := w.Selecting(serviceID("ns/web"))
		want := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:         "ns",
				Name:              "web",
				UID:               svc.UID,
				Labels:            svc.Labels,
				DeletionTimestamp: svc.DeletionTimestamp,
			},
			Spec: corev1.ServiceSpec{
				ClusterIP:  svc.Spec.ClusterIP,
				Selector:   svc.Spec.Selector,
				Ports:      svc.Spec.Ports,
				IPFamilies: svc.Spec.IPFamilies,
			},
		}
		if !equality.Semantic.DeepEqual(got, want) || len(w.marked()) != 1 {
			t.Errorf("got\n%v\nwant\n%v, and one reported change", got, want)
		}
	}
	if list := w.SelectingIn("ns"); len(list) != 1 || len(w.SelectingIn("other")) != 0 {
		t.Errorf("%v", list)
	}
	// Only a walk over all Services of the cluster finds this entry.
	w.cache.services.byID[serviceID("ns/unseen")] = w.cache.services.byID[serviceID("ns/web")]
	if list := w.SelectingIn("ns"); len(list) != 1 {
		t.Errorf("the search in one namespace walks over all Services: %v", list)
	}
	delete(w.cache.services.byID, serviceID("ns/unseen"))
	w.put(aService("web", "http=80"))
	if list := w.SelectingIn("ns"); len(list) > 0 {
		t.Errorf("without a selector: %v", list)
	}
	selecting := aService("web", "http=80")
	selecting.Spec.Selector = map[string]string{"app": "web"}
	w.put(selecting)
	w.del(selecting)
	if got := w.Selecting(serviceID("ns/web")); got != nil || len(w.SelectingIn("ns")) > 0 ||
		len(w.cache.local.selecting) > 0 {
		t.Errorf("deleted: %v, still cached %v", got, w.cache.local.selecting)
	}
}

// TestSelected checks the cached fields of ExternalWorkloads, which are those that slices contain.
// Only changes of these fields are reported.
func TestSelected(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*decode.ExternalWorkload)
		want   bool
	}{
		{"EW-13 EW-22 none", func(*decode.ExternalWorkload) {}, false},
		{"EW-14 an IP more", func(o *decode.ExternalWorkload) {
			o.Spec.WorkloadIPs = append(o.Spec.WorkloadIPs, decode.WorkloadIP{IP: "10.0.0.3"})
		}, true},
		{"EW-15 an IP less", func(o *decode.ExternalWorkload) { o.Spec.WorkloadIPs = o.Spec.WorkloadIPs[:1] }, true},
		{"EW-16 another IP", func(o *decode.ExternalWorkload) { o.Spec.WorkloadIPs[0].IP = "10.0.0.3" }, true},
		{"EW-17 a port more",
			func(o *decode.ExternalWorkload) { o.Spec.Ports = append(o.Spec.Ports, decode.PortSpec{Port: 1}) }, true},
		{"EW-18 a port less", func(o *decode.ExternalWorkload) { o.Spec.Ports = o.Spec.Ports[:1] }, true},
		{"EW-19 another port number", func(o *decode.ExternalWorkload) { o.Spec.Ports[0].Port = 1 }, true},
		{"EW-20 another port name", func(o *decode.ExternalWorkload) { o.Spec.Ports[0].Name = "other" }, true},
		{"EW-21 a port name less", func(o *decode.ExternalWorkload) { o.Spec.Ports[0].Name = "" }, true},
		{"another protocol", func(o *decode.ExternalWorkload) { o.Spec.Ports[0].Protocol = "UDP" }, true},
		{"not ready", func(o *decode.ExternalWorkload) { o.Status.Conditions[0].Status = "False" }, true},
		{"another zone", func(o *decode.ExternalWorkload) { o.Labels = with(o.Labels, corev1.LabelTopologyZone, "z") },
			true},
		{"recreated", func(o *decode.ExternalWorkload) { o.UID = "another" }, true},
		{"unreadable", func(o *decode.ExternalWorkload) { o.Invalid = "spec: no" }, true},
		{"another reason", func(o *decode.ExternalWorkload) { o.Status.Conditions[0].Reason = "x" }, false},
		{"another condition", func(o *decode.ExternalWorkload) {
			o.Status.Conditions = append(o.Status.Conditions,
				decode.WorkloadCondition{Type: "Healthy", Status: "False"})
		}, false},
		{"an annotation", func(o *decode.ExternalWorkload) { o.Annotations = with(o.Annotations, "a", "b") }, false},
	} {
		var changed []string
		w := newWorld(t, withSlices(&changed))
		made := func() *decode.ExternalWorkload {
			o := aWorkload("v", "http=8080", "db=3306")
			o.Spec.WorkloadIPs = []decode.WorkloadIP{{IP: "10.0.0.1"}, {IP: "10.0.0.2"}}
			o.Status.Conditions = []decode.WorkloadCondition{{Type: "Ready", Status: "True"}}
			return o
		}
		before, after := made(), made()
		x.change(after)
		w.put(before, after)
		was, is := workloadText(compactSelected(before)), workloadText(compactSelected(after))
		want := []string{"none -> " + was, was + " -> " + is}
		if !x.want {
			want = want[:1]
		}
		if !slices.Equal(changed, want) {
			t.Errorf("%s: %q, want %q", x.name, changed, want)
		}
		if list := w.Workloads("ns"); len(list) != 1 || workloadText(list[0]) != is || len(w.Workloads("")) != 1 ||
			len(w.Workloads("other")) != 0 {
			t.Errorf("%s: %v", x.name, list)
		}
		if !w.HasWorkloads("ns") || w.HasWorkloads("other") {
			t.Errorf("%s: the index of namespaces with workloads is wrong", x.name)
		}
		w.del(after)
		if changed[len(changed)-1] != is+" -> none" || len(w.Workloads("")) != 0 || w.HasWorkloads("ns") ||
			len(w.cache.local.selected) > 0 {
			t.Errorf("%s: after the deletion: %q, still cached %v", x.name, changed, w.Workloads(""))
		}
	}
}

// TestMarked checks that slices with the mark are counted and that any change of such a slice is
// reported.
func TestMarked(t *testing.T) {
	w := newWorld(t, withSlices(new([]string)))
	web := serviceID("ns/web")
	slice := func(version, mark string, change func(*discoveryv1.EndpointSlice)) {
		t.Helper()
		s := aSlice("s", "web", "http=8080", "10.0.0.1")
		s.ResourceVersion = version
		s.Labels[discoveryv1.LabelManagedBy] = mark
		change(s)
		w.put(s)
	}
	same := func(*discoveryv1.EndpointSlice) {}
	empty := func(s *discoveryv1.EndpointSlice) { s.Ports, s.Endpoints = nil, nil }
	for _, x := range []struct {
		version, mark string
		change        func(*discoveryv1.EndpointSlice)
		marked, event bool
	}{
		{"1", "us", same, true, true},
		{"2", "us", same, true, true},
		{"3", "us", empty, true, true},
		{"4", "others", same, false, true},
		{"5", "others", same, false, false},
		{"6", "us", same, true, true},
	} {
		slice(x.version, x.mark, x.change)
		if n := w.ManagedSlices(web); (n == 1) != x.marked || w.AllManagedSlices()[web] != n {
			t.Errorf("%s: %d slices, all counts %v", x.version, n, w.AllManagedSlices())
		}
		if got := len(w.marked()) > 0; got != x.event {
			t.Errorf("%s: the change was reported: %v", x.version, got)
		}
	}
	w.del(aSlice("s", "web", ""))
	if w.ManagedSlices(web)+len(w.AllManagedSlices()) > 0 || len(w.marked()) == 0 {
		t.Error("a deleted slice is still cached, or its deletion was not reported")
	}
}
