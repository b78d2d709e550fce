package externalworkload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clienttesting "k8s.io/client-go/testing"

	"isthmus/clusterstore/decode"
)

// TestReadsOnce checks that one request lists the current slices of a Service, without slices that
// are being deleted. A Service that selects no workloads and has no slices needs no request.
//
// Behaviours: EW-08.
func TestReadsOnce(t *testing.T) {
	svc := aService("web", "80/8080")
	leadership := newTestLeadership(t, svc)
	leadership.problems.Set(nameOf(svc), []string{"vm-1: no"})
	if leadership.sync(svc); len(leadership.api.Actions()) > 0 || len(leadership.problems.Of(nameOf(svc))) > 0 {
		t.Errorf("requests %v, problems %v", leadership.api.Actions(), leadership.problems.All())
	}
	for i := range 5 {
		leadership.has.create(change(
			newSlice(svc, discoveryv1.AddressTypeIPv4, nil, nil),
			func(s *discoveryv1.EndpointSlice) { s.Name = fmt.Sprint("s-", i) },
		))
	}
	for name, edit := range map[string]func(s *discoveryv1.EndpointSlice){
		"going": func(s *discoveryv1.EndpointSlice) {
			s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.org/slow"}
		},
		"others":    func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "others" },
		"elsewhere": func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "db" },
	} {
		leadership.has.create(change(
			newSlice(svc, discoveryv1.AddressTypeIPv4, nil, nil),
			edit,
			func(s *discoveryv1.EndpointSlice) { s.Name = name },
		))
	}
	list, err := leadership.slicesOf(t.Context(), nameOf(svc))
	must(t, err)
	if len(list) != 5 || list[0].Name != "s-0" || list[4].Name != "s-4" {
		t.Errorf("%d slices: %v", len(list), list)
	}
	requests := leadership.api.Actions()
	if len(requests) != 1 {
		t.Fatalf("requests %v", requests)
	}
	asked := requests[0].(clienttesting.ListActionImpl)
	want := metav1.ListOptions{
		LabelSelector: "endpointslice.kubernetes.io/managed-by=" + Mark + ",kubernetes.io/service-name=web",
	}
	if asked.Namespace != "ns" || asked.ListOptions != want {
		t.Errorf("list of namespace %q with options %+v, want %+v", asked.Namespace, asked.ListOptions, want)
	}
}

// inTwoSlices returns a leadership of Service web with two slices. One has workloads 1 and 2 at
// 8080, the other has 3 and 4 at 9090.
func inTwoSlices(t *testing.T) (*corev1.Service, testLeadership) {
	svc := aService("web", "old=80/http")
	leadership := newTestLeadership(t, svc)
	leadership.has.put(svc, atPort(8080, "1", "2")...)
	leadership.has.put(svc, atPort(9090, "3", "4")...)
	return svc, leadership
}

// TestExchange checks that one sync corrects two slices that exchange a workload. The sync writes
// one of the slices twice.
func TestExchange(t *testing.T) {
	svc, leadership := inTwoSlices(t)
	leadership.workloads = slices.Concat(atPort(8080, "1", "4"), atPort(9090, "2", "3"))
	leadership.sync(svc)
	want := "IPv4 old=8080/TCP: 1=10.0.0.1 4=10.0.0.4\nIPv4 old=9090/TCP: 3=10.0.0.3 2=10.0.0.2"
	if got := leadership.has.String(); got != want || len(leadership.writes) != 3 {
		t.Errorf("writes %q, slices\n%s\nwant\n%s", leadership.writes, got, want)
	}
}

// TestSeveralNew checks that one sync creates all needed slices.
func TestSeveralNew(t *testing.T) {
	svc, leadership := inTwoSlices(t)
	svc.Name = "another"
	leadership.workloads = slices.Concat(atPort(8080, "1"), atPort(9090, "2"), atPort(7070, "3"))
	leadership.writes = nil
	if leadership.sync(svc); len(leadership.writes) != 3 {
		t.Errorf("writes %q", leadership.writes)
	}
}

// TestRefused checks that other slices keep the endpoints of a slice that was rejected as invalid,
// and get new endpoints. A slice whose ports change stays as it was.
func TestRefused(t *testing.T) {
	for _, x := range []struct {
		name, port    string // of the Service, before named old
		workloads     []*decode.ExternalWorkload
		refused, then string // slices after the first and the second sync
		writes        string // writes of the second sync
	}{
		{"all change ports", "new", slices.Concat(atPort(8080, "1", "3"), atPort(9090, "2", "4")),
			"IPv4 old=8080/TCP: 1=10.0.0.1 2=10.0.0.2\nIPv4 old=9090/TCP: 3=10.0.0.3 4=10.0.0.4",
			"IPv4 new=8080/TCP: 1=10.0.0.1 3=10.0.0.3\nIPv4 new=9090/TCP: 2=10.0.0.2 4=10.0.0.4",
			"create update delete"},
		{"one changes its port, others their readiness", "old",
			slices.Concat(atPort(8080, "2"), atPort(7070, "1"), atPort(9090, "3", "4")),
			"IPv4 old=8080/TCP: 2=10.0.0.2! 1=10.0.0.1\nIPv4 old=9090/TCP: 3=10.0.0.3! 4=10.0.0.4",
			"IPv4 old=7070/TCP: 1=10.0.0.1\nIPv4 old=8080/TCP: 2=10.0.0.2!\nIPv4 old=9090/TCP: 3=10.0.0.3! 4=10.0.0.4",
			"create update"},
		{"two exchange workloads, one gets a new one", "old",
			slices.Concat(atPort(8080, "1", "4"), atPort(9090, "2", "3"), atPort(7070, "5")),
			"IPv4 old=8080/TCP: 1=10.0.0.1! 4=10.0.0.4 2=10.0.0.2\nIPv4 old=9090/TCP: 3=10.0.0.3 2=10.0.0.2! " +
				"4=10.0.0.4",
			"IPv4 old=7070/TCP: 5=10.0.0.5\nIPv4 old=8080/TCP: 1=10.0.0.1! 4=10.0.0.4\nIPv4 old=9090/TCP: " +
				"3=10.0.0.3 2=10.0.0.2!", "create update update"},
	} {
		svc, leadership := inTwoSlices(t)
		svc.Spec.Ports[0].Name = x.port
		leadership.workloads = x.workloads
		if x.port == "old" {
			unready(x.workloads[0])
			unready(x.workloads[2])
		}
		leadership.fail("create", apierrors.NewInvalid(schema.GroupKind{Kind: "EndpointSlice"}, "x", nil))
		if _, err := leadership.leadership.sync(
			t.Context(), nameOf(svc),
		); !apierrors.IsInvalid(err) || leadership.has.String() != x.refused {
			t.Errorf("%s: %v; slices\n%s\nwant\n%s", x.name, err, leadership.has.String(), x.refused)
		}
		leadership.writes = nil
		if _, err := leadership.leadership.sync(
			t.Context(), nameOf(svc),
		); !apierrors.IsInvalid(err) || len(leadership.writes) > 0 {
			t.Errorf("%s: %v; writes of existing slices %q", x.name, err, leadership.writes)
		}
		leadership.fail("create", nil)
		if leadership.sync(svc); strings.Join(leadership.writes, " ") != x.writes || leadership.has.String() != x.then {
			t.Errorf(
				"%s: then writes %q, slices\n%s\nwant\n%s", x.name, leadership.writes, leadership.has.String(), x.then,
			)
		}
	}
}

// TestRefusedOnce checks that rejected slices that exchange workloads are tried and reported once
// each.
func TestRefusedOnce(t *testing.T) {
	svc, leadership := inTwoSlices(t)
	leadership.workloads = slices.Concat(atPort(8080, "1", "4"), atPort(9090, "2", "3"))
	leadership.fail("update", apierrors.NewInvalid(schema.GroupKind{Kind: "EndpointSlice"}, "x", nil))
	_, err := leadership.leadership.sync(t.Context(), nameOf(svc))
	if !apierrors.IsInvalid(err) || strings.Count(err.Error(), "update EndpointSlice ") != 2 {
		t.Errorf("%v", err)
	}
}

// TestBrokenOff checks that newPlan stops when its context ends, even with many workloads. The
// slices do not change.
func TestBrokenOff(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	svc := aService("web", "80/8080")
	leadership := newTestLeadership(t, svc)
	leadership.workloads = workloads(10)
	leadership.workloads[9].Invalid = "not to be read"
	leadership.problems.Set(nameOf(svc), []string{"as before"})
	if _, err := leadership.leadership.sync(ctx, nameOf(svc)); !errors.Is(err, context.Canceled) ||
		leadership.problems.Of(nameOf(svc))[0] != "as before" {
		t.Errorf("%v; problems %v", err, leadership.problems.All())
	}
}

// FuzzWorkload checks that API servers accept slices made from any ExternalWorkload, and that a
// second sync does not change them.
func FuzzWorkload(f *testing.F) {
	for _, text := range []string{
		`{"spec":{"ports":[{"name":"http","port":8080}],"workloadIPs":[{"ip":"10.0.0.1"},{"ip":"2001:db8::1"}]},` +
			`"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
		`{"spec":{"ports":[{"port":-1,"protocol":"tcp"}],"workloadIPs":[{"ip":"::ffff:127.0.0.1"},` +
			`{"ip":"fe80::1%eth0"},{"ip":"0.0.0.0"},{"ip":"1.2.3"}]}}`,
		`{"spec":{"ports":"none"},"status":[]}`,
		`{"metadata":{"labels":{"topology.kubernetes.io/zone":"a"}},"spec":{"workloadIPs":[{"ip":"010.1.1.1"},` +
			`{"ip":"10.0.0.1"},{"ip":"10.0.0.1"}]}}`,
	} {
		f.Add("vm-1", text)
		f.Add("vm.1", text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		var x decode.ExternalWorkload
		if json.Unmarshal([]byte(text), &x) != nil {
			return // not a JSON object
		}
		x.Namespace, x.Name = "ns", name
		w := &world{t: t}
		svc := headless(families(aService("web", "http=80/http", "admin=81/8080", "dns=53/53/UDP")))
		w.sync(svc, &x, aWorkload("other", "10.0.0.9,2001:db8::9", "http=8080"))
		for _, s := range w.slices {
			checkValid(t, s)
		}
	})
}

// checkValid makes those checks of API servers that depend on workloads.
func checkValid(t *testing.T, s *discoveryv1.EndpointSlice) {
	names := make(map[string]bool)
	for _, p := range s.Ports {
		if *p.Port < 1 || *p.Port > 65535 || names[*p.Name] ||
			(*p.Protocol != corev1.ProtocolTCP && *p.Protocol != corev1.ProtocolUDP) {
			t.Errorf("port %s=%d/%s", *p.Name, *p.Port, *p.Protocol)
		}
		names[*p.Name] = true
	}
	for _, e := range s.Endpoints {
		if len(e.Addresses) == 0 || len(e.Addresses) > 100 {
			t.Errorf("%d addresses", len(e.Addresses))
		}
		seen := make(map[string]bool)
		for _, text := range e.Addresses {
			ip, err := netip.ParseAddr(text)
			if err != nil || ip.String() != text || seen[text] ||
				ip.Is4() != (s.AddressType == discoveryv1.AddressTypeIPv4) || ip.Is4In6() || ip.Zone() != "" {
				t.Errorf("%s address %q: %v", s.AddressType, text, err)
			}
			seen[text] = true
			if ip.IsUnspecified() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() {
				t.Errorf("address %s is not the workload's", text)
			}
		}
		if e.Hostname != nil && len(validation.IsDNS1123Label(*e.Hostname)) > 0 {
			t.Errorf("hostname %q", *e.Hostname)
		}
	}
}
