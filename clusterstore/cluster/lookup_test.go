package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/federation"
)

const (
	podDescribed      = " namespace:ns pod:p serviceaccount:default node=node-1 twin=ns/p"
	meshedDescribed   = " control_plane_ns:linkerd" + podDescribed + " id=" + defaultID + " sni=" + defaultID + " meshed"
	defaultID         = "default.ns.serviceaccount.identity.linkerd.cluster.local"
	workloadDescribed = " external_workload:v namespace:ns twin=workload/ns/v uri=spiffe://root/v sni=v.example meshed"
)

// TestLookupAddress: the owner of an address, whatever the order of events, as far as TestAddressReference does not draw it.
func TestLookupAddress(t *testing.T) {
	aliased := aPod("p", at("10.0.0.1"), onHost("192.168.0.1"), namedPort("", 80, 7777))
	initPort := aPod("p", at("10.0.0.1"), onHost("192.168.0.1", "fd00::1"), namedPort("a", 1, 22345), namedPort("b", 2, 22346), sidecarPort("c", 3))
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
		{"a Service's address twice", "10.1.0.1:80", []metav1.Object{clusterIP(aService("a"), "10.1.0.1", "10.1.0.1")}, "Service ns/a"},
		{"a Pod with the older field", "10.0.0.1:8989", []metav1.Object{onlyIP}, "10.0.0.1:8989" + podDescribed},
		{"W-01 host port of an init container", "192.168.0.1:22344", []metav1.Object{initPort}, "192.168.0.1:22344" + podDescribed},
		{"W-01 another host port", "[fd00::1]:22346", []metav1.Object{initPort}, "[fd00::1]:22346" + podDescribed},
		{"the same port of another protocol", "192.168.0.1:7777", []metav1.Object{aliased, overUDP}, "192.168.0.1:7777" + podDescribed},
		{"can't be sent", "10.0.0.1:80", []metav1.Object{aPod("p", at("10.0.0.1"), podLabel(templateHashLabel, "\xff"))}, "10.0.0.1:80"},
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
					t.Errorf("after all are gone: %s", got)
				}
				if n := w.state.size() + w.state.local.size(); n != 0 {
					t.Errorf("%d left behind", n)
				}
			})
		}
	}
}

// size is the number of entries in all indexes.
func (l *Local) size() int {
	a := &l.addresses
	return len(a.locations) + len(a.pods) + len(a.workloads) + len(a.services) + len(a.exposed) +
		len(a.nodes) + len(l.managed) + len(l.profiles.byKey) + l.profiles.rejected
}

// TestInstance: the owner of a hostname of a service, as far as TestAddressReference does not draw it.
func TestInstance(t *testing.T) {
	gateway := aSlice("s", "web", "http=4143", "10.0.0.9 host=h")
	gateway.Annotations = map[string]string{gatewayIdentityAnnotation: "gw.id", remoteNameAnnotation: "h.web.ns.svc.east.local"}
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
				if n := w.state.size() + w.state.local.size(); n != 0 {
					t.Errorf("%d left behind", n)
				}
			}
		})
	}
}

// instance describes the endpoint with hostname h of the service web.
func (w *world) instance(port uint16) string {
	if e := w.Instance(federation.ServiceID{Namespace: "ns", Name: "web"}, "h", port); e != nil {
		return describe(e)
	}
	return ""
}

// TestUnservedStay: addresses that are not ready, but have a hostname, are never offered,
// and clusters that don't index addresses don't keep them as hosts.
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
	remote.put(aService("web", "http=80"), slice, portless, aPod("p", at("10.0.0.1")), workloadAt(aWorkload("v", "http=80"), "10.2.0.1"))
	for _, l := range remote.state.slices.byKey {
		for _, a := range l.subsets[0].addresses {
			if a.hostname != nil && a.facts.Value().leftOut {
				t.Errorf("kept: %+v", a)
			}
		}
	}
	for _, r := range remote.resources {
		if r.Name() == "serviceprofiles" {
			t.Error("follows ServiceProfiles")
		}
	}
}
