package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"isthmus/clusterstore/kube"
	"isthmus/federation"
)

var web = federation.ServiceID{Namespace: "ns", Name: "web"}

func atOnce(context.Context) error { return nil }

func (r *running) look() []Looked {
	r.t.Helper()
	all, err := r.Look(r.t.Context(), web, atOnce)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// lookText is all looks in words: "RESOURCE COMPARED: OBJECT PROBLEM, …".
func lookText(all []Looked) string {
	var lines []string
	for _, l := range all {
		line := fmt.Sprintf("%s %d:", l.Resource, l.Compared)
		for _, d := range l.Differences {
			line += fmt.Sprintf(" %s %s,", d.Object, d.Problem)
		}
		if l.More > 0 {
			line += fmt.Sprintf(" and %d more", l.More)
		}
		if l.Err != nil {
			line += " " + l.Err.Error()
		}
		lines = append(lines, strings.Trim(line, ",:"))
	}
	return strings.Join(lines, "; ")
}

// selecting gives a Service a selector.
func selecting(o *corev1.Service, app string) *corev1.Service {
	o.Spec.Selector = map[string]string{"app": app}
	return o
}

// auditedObjects are a Service with a slice that names a Pod and an ExternalWorkload.
func auditedObjects() []runtime.Object {
	return []runtime.Object{
		selecting(aService("web", "http=80"), "web"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2"),
		aPod("p", podLabel("app", "web")), aPod("other"),
		aService("other", "http=80"), aSlice("o", "other", "http=8080", "10.0.0.9"),
	}
}

// TestLook: what is taken out of the gateway's knowledge, is left in it, or is another there,
// is a difference of its resource until that is listed again; nothing else is.
func TestLook(t *testing.T) {
	slices := func(r *running) lockedStore[*sliceData] {
		return lockedStore[*sliceData]{r.state, r.state.sliceStore()}
	}
	services := func(r *running) lockedStore[*Service] {
		return lockedStore[*Service]{r.state, r.state.serviceStore()}
	}
	pods := func(r *running) lockedStore[placedPod] {
		return lockedStore[placedPod]{r.state, r.state.podStore()}
	}
	for name, tt := range map[string]struct {
		tamper func(r *running)
		want   string
		heal   string // the resource
	}{
		"nothing": {func(*running) {}, "services 1; endpointslices 1; pods 1", ""},
		"a slice is missing": {func(r *running) { slices(r).Drop("ns/s") },
			"services 1; endpointslices 1: ns/s missing in the gateway; pods 1", "endpointslices"},
		"a slice of an owner is left": {func(r *running) {
			d, _ := compactSlice(aSlice("gone", "web", "http=8080", "10.0.0.7"), false)
			slices(r).Put("ns/gone", d)
		}, "services 1; endpointslices 2: ns/gone not in the API; pods 1", "endpointslices"},
		"a slice differs": {func(r *running) {
			d, _ := compactSlice(aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"), false)
			slices(r).Put("ns/s", d)
		}, "services 1; endpointslices 1: ns/s differs; pods 1", "endpointslices"},
		"the Service is missing": {func(r *running) { services(r).Drop("ns/web") },
			"services 1: ns/web missing in the gateway; endpointslices 1; pods 1", "services"},
		"the Service differs": {func(r *running) { services(r).Put("ns/web", &Service{ExternalName: true}) },
			"services 1: ns/web differs; endpointslices 1; pods 1", "services"},
		"a Pod is missing": {func(r *running) { pods(r).Drop("ns/p") },
			"services 1; endpointslices 1; pods 1: ns/p missing in the gateway", "pods"},
		"a Pod differs": {func(r *running) { pods(r).Put("ns/p", placedPod{facts: testRules.compactPod(aPod("p"))}) },
			"services 1; endpointslices 1; pods 1: ns/p differs", "pods"},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, nil, func(r *running) {
				if !r.isSynced() {
					t.Fatal("not synced")
				}
				before := r.addrs()
				tt.tamper(r)
				all := r.look()
				if got := lookText(all); got != tt.want {
					t.Fatalf("found  %s\nwanted %s", got, tt.want)
				}
				for i, l := range r.look() {
					for k, d := range l.Differences {
						if !d.Same(all[i].Differences[k]) {
							t.Errorf("%s is another difference at the second look", d.Object)
						}
					}
				}
				r.Relist(tt.heal)
				time.Sleep(5 * time.Second)
				if got := lookText(r.look()); got != "services 1; endpointslices 1; pods 1" {
					t.Errorf("after a new list: %s", got)
				}
				if got := r.addrs(); got != before {
					t.Errorf("endpoints %s, before %s", got, before)
				}
			}, auditedObjects()...)
		})
	}
}

// TestLookGone: a Service that is kept and that the API does not have.
func TestLookGone(t *testing.T) {
	inCluster(t, nil, func(r *running) {
		r.isSynced()
		lockedStore[*Service]{r.state, r.state.serviceStore()}.Put("ns/web", &Service{Ports: []ServicePort{{Number: 80}}})
		if got := lookText(r.look()); got != "services 1: ns/web not in the API; endpointslices 0" {
			t.Error(got)
		}
	})
}

// TestLookWorkloads: ExternalWorkloads are looked at where slices name some.
func TestLookWorkloads(t *testing.T) {
	inCluster(t, nil, func(r *running) {
		r.isSynced()
		w := aWorkload("vm", "http=80")
		w.Labels = map[string]string{"app": "web"}
		r.create(w)
		r.create(aWorkload("another"))
		if got := lookText(r.look()); got != "services 1; endpointslices 1; externalworkloads 1" {
			t.Error(got)
		}
		lockedStore[placedPod]{r.state, r.state.workloadStore()}.Drop("ns/vm")
		if got := lookText(r.look()); got != "services 1; endpointslices 1; externalworkloads 1: ns/vm missing in the gateway" {
			t.Error(got)
		}
	}, selecting(aService("web", "http=80"), "web"), aSlice("s", "web", "http=8080", "10.0.0.3 ew=vm"))
}

// TestLookEndpoints: without EndpointSlices, core Endpoints are looked at.
func TestLookEndpoints(t *testing.T) {
	inCluster(t, func(c *Config, _ *trouble) { c.Rules.EndpointSlices = false }, func(r *running) {
		r.isSynced()
		lockedStore[*sliceData]{r.state, r.state.sliceStore()}.Drop("ns/web")
		if got := lookText(r.look()); got != "services 1; endpoints 1: ns/web missing in the gateway" {
			t.Error(got)
		}
	}, aService("web", "http=80"), &coreEndpoints{ObjectMeta: inNS("web"), Subsets: []coreEndpointSubset{{
		Ports: []corev1.EndpointPort{{Name: "http", Port: 8080}}, Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}},
	}}})
}

// TestSame: a change of either side makes it another difference.
func TestSame(t *testing.T) {
	inCluster(t, nil, func(r *running) {
		r.isSynced()
		store := lockedStore[*sliceData]{r.state, r.state.sliceStore()}
		keep := func(addrs ...string) {
			d, _ := compactSlice(aSlice("s", "web", "http=8080", addrs...), false)
			store.Put("ns/s", d)
		}
		first := func() Difference { return r.look()[1].Differences[0] }
		keep("10.0.0.7")
		a := first()
		keep("10.0.0.7")
		if b := first(); !a.Same(b) || !a.About(b) {
			t.Error("another difference although nothing has changed")
		}
		keep("10.0.0.8")
		b := first()
		if a.Same(b) || !a.About(b) {
			t.Error("the same difference after what is kept has changed")
		}
		s := aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2")
		s.ResourceVersion = "77"
		if err := r.api.typed.Tracker().Update(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), s, "ns"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		keep("10.0.0.8")
		if c := first(); b.Same(c) {
			t.Error("the same difference after the API's object has changed")
		}
	}, auditedObjects()...)
}

// TestLookFails: an API that can't be read is an error that can be shown, and no difference; so
// is one that never comes to an end, and a cluster that has ended.
func TestLookFails(t *testing.T) {
	for name, tt := range map[string]struct {
		on    string
		react clienttesting.ReactionFunc
		want  string
	}{
		"refused": {"pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, &url.Error{Op: "Get", URL: "https://east/secret", Err: errors.New("no\x1b[31m way")}
		}, "services 1; endpointslices 1; pods 0: no [31m way"},
		"no end": {"endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &discoveryv1.EndpointSliceList{ListMeta: metav1.ListMeta{Continue: "on"}}, nil
		}, "services 1; endpointslices 0: the API server sent 100 pages and announced more"},
		"other objects": {"endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
			other := *aSlice("x", "web", "http=1", "10.0.0.1")
			other.Namespace = "elsewhere"
			return true, &discoveryv1.EndpointSliceList{Items: []discoveryv1.EndpointSlice{other, *aSlice("s", "web", "http=8080", "10.0.0.1 pod=p", "10.0.0.2")}}, nil
		}, "services 1; endpointslices 1; pods 1"},
		"too many": {"endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
			list := &discoveryv1.EndpointSliceList{}
			for i := range maxLookObjects + 1 {
				o := discoveryv1.EndpointSlice{ObjectMeta: inNS(fmt.Sprint("x", i))}
				o.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
				list.Items = append(list.Items, o)
			}
			return true, list, nil
		}, "services 1; endpointslices 50000: the API server sent more than 50000 objects"},
		"many differences": {"endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
			list := &discoveryv1.EndpointSliceList{}
			for range 30 {
				list.Items = append(list.Items, *aSlice(fmt.Sprint("s", len(list.Items)), "web", "http=1", "10.0.0.1"))
			}
			return true, list, nil
		}, "and 11 more"},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, nil, func(r *running) {
				r.isSynced()
				r.api.typed.PrependReactor("list", tt.on, tt.react)
				if got := lookText(r.look()); got != tt.want && !(name == "many differences" && strings.Contains(got, tt.want)) {
					t.Errorf("found  %s\nwanted %s", got, tt.want)
				}
				r.stop()
				if _, err := r.Look(t.Context(), web, atOnce); err == nil {
					t.Error("a cluster that has ended is looked at")
				}
			}, auditedObjects()...)
		})
	}
}

// TestLookEnds: Run waits for the looks under way, which end with it.
func TestLookEnds(t *testing.T) {
	inCluster(t, nil, func(r *running) {
		r.isSynced()
		waits := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		done := make(chan []Looked, 1)
		go func() {
			all, _ := r.Look(context.Background(), web, waits)
			done <- all
		}()
		synctest.Wait()
		r.stop()
		select {
		case all := <-done:
			if lookText(all) != "services 0: context canceled" {
				t.Error(lookText(all))
			}
		default:
			t.Error("Run ended before a look")
		}
	}, auditedObjects()...)
}

// FuzzLook: no answer of a server ends the process, and what is shown of it is bounded.
func FuzzLook(f *testing.F) {
	bytes := func(o wire) []byte {
		data, err := o.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		return data
	}
	pod := aPod("p", podLabel("app", "web"))
	f.Add(bytes(selecting(aService("web", "http=80"), "web")), bytes(aSlice("s", "web", "http=8080", "10.0.0.1 pod=p")), bytes(pod), "c")
	f.Fuzz(func(t *testing.T, service, slice, pod []byte, next string) {
		w := newWorld(t, func(c *Config) { c.OnService = func(federation.ServiceID, *Service) {} })
		s, l, p := &corev1.Service{}, &discoveryv1.EndpointSlice{}, &corev1.Pod{}
		if s.Unmarshal(service) != nil || l.Unmarshal(slice) != nil || p.Unmarshal(pod) != nil {
			return
		}
		from := &looking{cluster: w.Cluster, namespace: s.Namespace, admit: atOnce}
		services := newLook(from, w.services())
		services.kept, services.same = func(string) (*Service, bool) { return nil, false }, (*Service).equal
		answers(t, services, &corev1.ServiceList{ListMeta: metav1.ListMeta{Continue: next}, Items: []corev1.Service{*s}})
		sliced := newLook(from, w.slices())
		sliced.kept, sliced.same = func(string) (*sliceData, bool) { return &sliceData{}, true }, (*sliceData).equal
		answers(t, sliced, &discoveryv1.EndpointSliceList{Items: []discoveryv1.EndpointSlice{*l}})
		pods := newLook(from, w.pods())
		pods.kept, pods.same = w.state.placed, placedPod.same
		answers(t, pods, &corev1.PodList{Items: []corev1.Pod{*p}})
		answers(t, pods, s) // no list
	})
}

// answers has a look read that answer, and checks what it shows.
func answers[O runtime.Object, T comparable](t *testing.T, l *look[O, T], answer runtime.Object) {
	l.list = func(context.Context, metav1.ListOptions) (runtime.Object, error) { return answer, nil }
	l.all(t.Context(), metav1.ListOptions{})
	l.absent(t.Context(), []string{l.namespace + "/a,b=c"})
	if len(l.Differences) > maxDifferences {
		t.Errorf("%d differences", len(l.Differences))
	}
	for _, d := range l.Differences {
		if len(d.Object) > 3*maxShown+3 || strings.ContainsFunc(d.Object, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("shown: %q", d.Object)
		}
	}
	if l.Err != nil && kube.Printable(l.Err) != l.Err {
		t.Errorf("shown: %q", l.Err)
	}
}
