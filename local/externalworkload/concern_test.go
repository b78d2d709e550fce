package externalworkload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/crd"
)

// TestContentsDiffer: which changes of a workload change its endpoints.
func TestContentsDiffer(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*crd.ExternalWorkload)
		want   bool
	}{
		{"EW-13 none", func(*crd.ExternalWorkload) {}, false},
		{"EW-14 an IP more", func(w *crd.ExternalWorkload) {
			w.Spec.WorkloadIPs = append(w.Spec.WorkloadIPs, crd.WorkloadIP{IP: "10.0.0.3"})
		}, true},
		{"EW-15 an IP less", func(w *crd.ExternalWorkload) { w.Spec.WorkloadIPs = w.Spec.WorkloadIPs[:1] }, true},
		{"EW-16 another IP", func(w *crd.ExternalWorkload) { w.Spec.WorkloadIPs[0].IP = "10.0.0.3" }, true},
		{"EW-17 a port more", func(w *crd.ExternalWorkload) { w.Spec.Ports = append(w.Spec.Ports, crd.PortSpec{Port: 1}) }, true},
		{"EW-18 a port less", func(w *crd.ExternalWorkload) { w.Spec.Ports = w.Spec.Ports[:1] }, true},
		{"EW-19 another port number", func(w *crd.ExternalWorkload) { w.Spec.Ports[0].Port = 1 }, true},
		{"EW-20 another port name", func(w *crd.ExternalWorkload) { w.Spec.Ports[0].Name = "other" }, true},
		{"EW-21 a port name less", func(w *crd.ExternalWorkload) { w.Spec.Ports[0].Name = "" }, true},
		{"another protocol", func(w *crd.ExternalWorkload) { w.Spec.Ports[0].Protocol = "UDP" }, true},
		{"not ready", func(w *crd.ExternalWorkload) { unready(w) }, true},
		{"another zone", func(w *crd.ExternalWorkload) { w.Labels[corev1.LabelTopologyZone] = "zone-a" }, true},
		{"made anew", func(w *crd.ExternalWorkload) { w.UID = "another" }, true},
		{"unreadable", func(w *crd.ExternalWorkload) { w.Invalid = "spec: no" }, true},
		{"a label", func(w *crd.ExternalWorkload) { w.Labels["team"] = "blue" }, false},
		{"identity", func(w *crd.ExternalWorkload) { w.Spec.MeshTLS.Identity = "x" }, false},
		{"another condition", func(w *crd.ExternalWorkload) {
			w.Status.Conditions = append(w.Status.Conditions, crd.WorkloadCondition{Type: "Healthy", Status: "False"})
		}, false},
	} {
		make := func() *crd.ExternalWorkload { return aWorkload("vm-1", "10.0.0.1,10.0.0.2", "http=8080", "db=3306") }
		before, after := make(), make()
		x.change(after)
		if got := contentsDiffer(before, after); got != x.want {
			t.Errorf("%s: %t", x.name, got)
		}
	}
}

// TestConcerned: which Services a workload's change concerns.
func TestConcerned(t *testing.T) {
	blue, red := map[string]string{"app": "vm", "team": "blue"}, map[string]string{"app": "vm", "team": "red"}
	redInZone := map[string]string{"app": "vm", "team": "red", corev1.LabelTopologyZone: "zone-a"}
	vm := func(labels map[string]string, ip string) *crd.ExternalWorkload {
		w := aWorkload("vm-1", ip, "8080")
		w.Labels = labels
		return w
	}
	for _, x := range []struct {
		name          string
		before, after *crd.ExternalWorkload
		want          string
	}{
		{"new", nil, vm(blue, "10.0.0.1"), "all blue"},
		{"gone", vm(red, "10.0.0.1"), nil, "all red"},
		{"EW-22 the same", vm(blue, "10.0.0.1"), vm(blue, "10.0.0.1"), ""},
		{"EW-23 labels and addresses", vm(blue, "10.0.0.1"), vm(red, "10.0.0.2"), "all blue red"},
		{"EW-24 addresses", vm(blue, "10.0.0.1"), vm(blue, "10.0.0.2"), "all blue"},
		{"EW-25 labels", vm(blue, "10.0.0.1"), vm(red, "10.0.0.1"), "blue red"},
		{"EW-25 labels and zone", vm(blue, "10.0.0.1"), vm(redInZone, "10.0.0.1"), "all blue red"},
	} {
		term := newTestTerm(t)
		for name, selector := range map[string]map[string]string{"all": {"app": "vm"}, "blue": {"team": "blue"}, "red": {"team": "red"}, "none": nil, "empty": {}} {
			svc := aService(name, "80/8080")
			svc.Spec.Selector = selector
			term.add(svc)
		}
		elsewhere := aService("elsewhere", "80/8080")
		elsewhere.Namespace = "other"
		term.add(elsewhere)
		term.add(external(aService("external", "80/8080")))
		var got []string
		term.workloadChanged(x.before, x.after)
		for _, change := range term.changes.take("ns") {
			for _, svc := range inNamespace[*corev1.Service](term.services, "ns") {
				if change.concerns(svc) {
					got = append(got, svc.Name)
				}
			}
		}
		slices.Sort(got)
		if got := strings.Join(got, " "); got != x.want {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}

// many adds n Services that select app=vm and number=I each.
func (x testTerm) many(n int) {
	for i := range n {
		svc := aService(fmt.Sprint("web-", i), "80/8080")
		svc.Spec.Selector = map[string]string{"app": "vm", "number": fmt.Sprint(i)}
		x.add(svc)
	}
}

// queued returns how many keys are in the queue.
func (x testTerm) queued() int { return int(testutil.ToFloat64(x.metrics.queue.depth)) }

// TestEventsAreCheap: the event of a workload does no more than note it, however many
// Services there are: all namespaces have the same informer. A worker finds the Services
// that it concerns.
func TestEventsAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTestTerm(t)
		term.many(100)
		queued := func() int {
			time.Sleep(batchDelay)
			synctest.Wait()
			return term.queued()
		}
		for i := range 50 {
			w := aWorkload(fmt.Sprint("vm-", i), "10.0.0.1", "8080")
			w.Labels["number"] = fmt.Sprint(i)
			term.onWorkload().OnAdd(w, false)
		}
		if n := queued(); n != 1 {
			t.Fatalf("%d keys in the queue after the events", n)
		}
		if !term.next(t.Context()) || term.queued() != 50 {
			t.Errorf("%d Services in the queue after a worker's turn", term.queued())
		}
	})
}

// TestTooManyChanges: if more workloads of a namespace change than it is worth to
// match, all its Services are synced, and no more changes are kept.
func TestTooManyChanges(t *testing.T) {
	for _, n := range []int{maxChanges, maxChanges + 1, 3 * maxChanges} {
		term := newTestTerm(t)
		term.many(10)
		for i := range n {
			term.workloadChanged(nil, aWorkload(fmt.Sprint("vm-", i), "10.0.0.1", "8080"))
		}
		if kept := len(term.changes.list["ns"]); kept > maxChanges+1 {
			t.Errorf("%d changes: %d are kept", n, kept)
		}
		want := 0
		if n > maxChanges {
			want = 10
		}
		before := term.queued()
		term.queueConcerned(t.Context(), "ns")
		if got := term.queued() - before; got != want {
			t.Errorf("%d changes: %d Services in the queue", n, got)
		}
		if len(term.changes.list) != 0 {
			t.Error("the changes are kept")
		}
	}
}

// BenchmarkWorkloadEvent: the event of a workload in a namespace of 10,000 Services, of
// which none selects it.
func BenchmarkWorkloadEvent(b *testing.B) {
	term := newTestTerm(b)
	term.many(10_000)
	handler := term.onWorkload()
	w := aWorkload("vm-1", "10.0.0.1", "8080")
	b.ReportAllocs()
	for b.Loop() {
		handler.OnUpdate(w, unready(w.DeepCopy()))
	}
}

// BenchmarkQueueConcerned: the worker's turn after as many such events as are matched.
func BenchmarkQueueConcerned(b *testing.B) {
	term := newTestTerm(b)
	term.many(10_000)
	w := aWorkload("vm-1", "10.0.0.1", "8080")
	for b.Loop() {
		for range maxChanges {
			term.workloadChanged(nil, w)
		}
		term.queueConcerned(b.Context(), "ns")
	}
}
