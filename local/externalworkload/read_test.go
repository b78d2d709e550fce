package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"isthmus/clusterstore/decode"
)

// TestReadsOnce: however many slices a Service has, one request reads them, in their present version, and no others, nor those that
// are being deleted. A Service that selects no workloads and has no slices takes no request.
//
// Behaviours: EW-08.
func TestReadsOnce(t *testing.T) {
	svc := aService("web", "80/8080")
	term := newTestTerm(t, svc)
	term.problems.Set(nameOf(svc), []string{"vm-1: no"})
	if term.sync(svc); len(term.api.Actions()) > 0 || len(term.problems.Of(nameOf(svc))) > 0 {
		t.Errorf("requests %v, problems %v", term.api.Actions(), term.problems.All())
	}
	for i := range 5 {
		term.has.create(change(newSlice(svc, discoveryv1.AddressTypeIPv4, nil, nil), func(s *discoveryv1.EndpointSlice) { s.Name = fmt.Sprint("s-", i) }))
	}
	for name, edit := range map[string]func(s *discoveryv1.EndpointSlice){
		"going": func(s *discoveryv1.EndpointSlice) {
			s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.org/slow"}
		},
		"others":    func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "others" },
		"elsewhere": func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "db" },
	} {
		term.has.create(change(newSlice(svc, discoveryv1.AddressTypeIPv4, nil, nil), edit, func(s *discoveryv1.EndpointSlice) { s.Name = name }))
	}
	list, err := term.slicesOf(t.Context(), nameOf(svc))
	must(t, err)
	if len(list) != 5 || list[0].Name != "s-0" || list[4].Name != "s-4" {
		t.Errorf("%d slices: %v", len(list), list)
	}
	requests := term.api.Actions()
	if len(requests) != 1 {
		t.Fatalf("requests %v", requests)
	}
	asked := requests[0].(clienttesting.ListActionImpl)
	want := metav1.ListOptions{LabelSelector: "endpointslice.kubernetes.io/managed-by=" + Mark + ",kubernetes.io/service-name=web"}
	if asked.Namespace != "ns" || asked.ListOptions != want {
		t.Errorf("in namespace %q, by %+v, want %+v", asked.Namespace, asked.ListOptions, want)
	}
}

// inTwoSlices is a term of web, whose slices have 1 and 2 at 8080, and 3 and 4 at 9090.
func inTwoSlices(t *testing.T) (*corev1.Service, testTerm) {
	svc := aService("web", "old=80/http")
	term := newTestTerm(t, svc)
	term.has.put(svc, atPort(8080, "1", "2")...)
	term.has.put(svc, atPort(9090, "3", "4")...)
	return svc, term
}

// TestExchange: slices each of which gets a workload of the other are right after one sync, which writes one of them twice.
func TestExchange(t *testing.T) {
	svc, term := inTwoSlices(t)
	term.workloads = slices.Concat(atPort(8080, "1", "4"), atPort(9090, "2", "3"))
	term.sync(svc)
	want := "IPv4 old=8080/TCP: 1=10.0.0.1 4=10.0.0.4\nIPv4 old=9090/TCP: 3=10.0.0.3 2=10.0.0.2"
	if got := term.has.String(); got != want || len(term.writes) != 3 {
		t.Errorf("writes %q, slices\n%s\nwant\n%s", term.writes, got, want)
	}
}

// TestSeveralNew: one sync makes all the slices that are needed.
func TestSeveralNew(t *testing.T) {
	svc, term := inTwoSlices(t)
	svc.Name = "another"
	term.workloads = slices.Concat(atPort(8080, "1"), atPort(9090, "2"), atPort(7070, "3"))
	term.writes = nil
	if term.sync(svc); len(term.writes) != 3 {
		t.Errorf("writes %q", term.writes)
	}
}

// TestRefused: once a slice was found invalid others keep the endpoints that were to come into that one first, and get what is new; one
// whose ports change stays as it is.
func TestRefused(t *testing.T) {
	for _, x := range []struct {
		name, port    string // of the Service, which was old
		workloads     []*decode.ExternalWorkload
		refused, then string // the slices
		writes        string // then
	}{
		{"all change ports", "new", slices.Concat(atPort(8080, "1", "3"), atPort(9090, "2", "4")),
			"IPv4 old=8080/TCP: 1=10.0.0.1 2=10.0.0.2\nIPv4 old=9090/TCP: 3=10.0.0.3 4=10.0.0.4",
			"IPv4 new=8080/TCP: 1=10.0.0.1 3=10.0.0.3\nIPv4 new=9090/TCP: 2=10.0.0.2 4=10.0.0.4", "create update delete"},
		{"one changes its port, others their readiness", "old", slices.Concat(atPort(8080, "2"), atPort(7070, "1"), atPort(9090, "3", "4")),
			"IPv4 old=8080/TCP: 2=10.0.0.2! 1=10.0.0.1\nIPv4 old=9090/TCP: 3=10.0.0.3! 4=10.0.0.4",
			"IPv4 old=7070/TCP: 1=10.0.0.1\nIPv4 old=8080/TCP: 2=10.0.0.2!\nIPv4 old=9090/TCP: 3=10.0.0.3! 4=10.0.0.4", "create update"},
		{"two exchange workloads, one gets a new one", "old", slices.Concat(atPort(8080, "1", "4"), atPort(9090, "2", "3"), atPort(7070, "5")),
			"IPv4 old=8080/TCP: 1=10.0.0.1! 4=10.0.0.4 2=10.0.0.2\nIPv4 old=9090/TCP: 3=10.0.0.3 2=10.0.0.2! 4=10.0.0.4",
			"IPv4 old=7070/TCP: 5=10.0.0.5\nIPv4 old=8080/TCP: 1=10.0.0.1! 4=10.0.0.4\nIPv4 old=9090/TCP: 3=10.0.0.3 2=10.0.0.2!", "create update update"},
	} {
		svc, term := inTwoSlices(t)
		svc.Spec.Ports[0].Name = x.port
		term.workloads = x.workloads
		if x.port == "old" {
			unready(x.workloads[0])
			unready(x.workloads[2])
		}
		term.fail("create", apierrors.NewInvalid(schema.GroupKind{Kind: "EndpointSlice"}, "x", nil))
		if _, err := term.term.sync(t.Context(), nameOf(svc)); !apierrors.IsInvalid(err) || term.has.String() != x.refused {
			t.Errorf("%s: %v; slices\n%s\nwant\n%s", x.name, err, term.has.String(), x.refused)
		}
		term.writes = nil
		if _, err := term.term.sync(t.Context(), nameOf(svc)); !apierrors.IsInvalid(err) || len(term.writes) > 0 {
			t.Errorf("%s: %v; writes of what there is %q", x.name, err, term.writes)
		}
		term.fail("create", nil)
		if term.sync(svc); strings.Join(term.writes, " ") != x.writes || term.has.String() != x.then {
			t.Errorf("%s: then writes %q, slices\n%s\nwant\n%s", x.name, term.writes, term.has.String(), x.then)
		}
	}
}

// TestRefusedOnce: of slices each of which gets a workload of the other, and that are refused, each is tried and named once.
func TestRefusedOnce(t *testing.T) {
	svc, term := inTwoSlices(t)
	term.workloads = slices.Concat(atPort(8080, "1", "4"), atPort(9090, "2", "3"))
	term.fail("update", apierrors.NewInvalid(schema.GroupKind{Kind: "EndpointSlice"}, "x", nil))
	_, err := term.term.sync(t.Context(), nameOf(svc))
	if !apierrors.IsInvalid(err) || strings.Count(err.Error(), "update EndpointSlice ") != 2 {
		t.Errorf("%v", err)
	}
}

// TestBrokenOff: a plan for many workloads ends with its context, and what is left out stays as it was.
func TestBrokenOff(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	svc := aService("web", "80/8080")
	term := newTestTerm(t, svc)
	term.workloads = workloads(10)
	term.workloads[9].Invalid = "not to be read"
	term.problems.Set(nameOf(svc), []string{"as before"})
	if _, err := term.term.sync(ctx, nameOf(svc)); !errors.Is(err, context.Canceled) || term.problems.Of(nameOf(svc))[0] != "as before" {
		t.Errorf("%v; problems %v", err, term.problems.All())
	}
}
