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
	"isthmus/federation"
)

// TestConcerned: which Services a workload's change concerns.
func TestConcerned(t *testing.T) {
	blue, red := map[string]string{"app": "vm", "team": "blue"}, map[string]string{"app": "vm", "team": "red"}
	vm := func(labels map[string]string) *crd.ExternalWorkload {
		return change(aWorkload("vm-1", "10.0.0.1", "8080"), func(w *crd.ExternalWorkload) { w.Labels = labels })
	}
	for _, x := range []struct {
		name          string
		before, after *crd.ExternalWorkload
		want          string
	}{
		{"new", nil, vm(blue), "all blue"},
		{"gone", vm(red), nil, "all red"},
		{"EW-24 the same labels", vm(blue), vm(blue), "all blue"},
		{"EW-23 EW-25 other labels", vm(blue), vm(red), "all blue red"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var services []*corev1.Service
			for name, selector := range map[string]map[string]string{"all": {"app": "vm"}, "blue": {"team": "blue"}, "red": {"team": "red"}, "none": nil, "empty": {}} {
				services = append(services, change(aService(name, "80/8080"), func(s *corev1.Service) { s.Spec.Selector = selector }))
			}
			services = append(services, change(aService("elsewhere", "80/8080"), func(s *corev1.Service) { s.Namespace = "other" }), external(aService("external", "80/8080")))
			term := newTestTerm(t, services...)
			term.workloadChanged(x.before, x.after)
			term.queueConcerned(t.Context(), "ns")
			var got []string
			for term.queued() > 0 {
				svc, _ := term.queue.Get()
				term.order.done(svc)
				term.queue.Done(svc)
				got = append(got, svc.Name)
			}
			slices.Sort(got)
			if got := strings.Join(got, " "); got != x.want {
				t.Errorf("%s: %q, want %q", x.name, got, x.want)
			}
		})
	}
}

// TestServiceChanged: a Service is marked if it may have to do with ExternalWorkloads, which is found out
// without a walk over objects.
func TestServiceChanged(t *testing.T) {
	web := federation.ServiceID{Namespace: "ns", Name: "web"}
	for _, x := range []struct {
		name string
		with func(testTerm)
		want int
	}{
		{"nothing", func(testTerm) {}, 0},
		{"workloads", func(x testTerm) { x.still.workloads = []*crd.ExternalWorkload{aWorkload("vm-1", "10.0.0.1", "8080")} }, 1},
		{"slices", func(x testTerm) { x.still.marked = 1 }, 1},
		{"what this term has written", func(x testTerm) { x.writes.set(web) }, 1},
		{"problems that are shown", func(x testTerm) { x.report(web, []string{"vm: no"}) }, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			term := newTestTerm(t)
			x.with(term)
			term.serviceChanged(web)
			time.Sleep(2 * batchDelay)
			synctest.Wait()
			if got := term.queued(); got != x.want || term.still.walks > 0 {
				t.Errorf("%s: %d in the queue, want %d; %d walks over all workloads", x.name, got, x.want, term.still.walks)
			}
		})
	}
}

// many returns n Services that select app=vm and number=I each.
func many(n int) (list []*corev1.Service) {
	for i := range n {
		list = append(list, change(aService(fmt.Sprint("web-", i), "80/8080"), func(s *corev1.Service) { s.Spec.Selector["number"] = fmt.Sprint(i) }))
	}
	return list
}

// queued returns how many keys are in the queue.
func (x testTerm) queued() int { return int(testutil.ToFloat64(x.metrics.queue.depth)) }

// TestTooManyChanges: the event of a workload does no more than note it: all namespaces have the same
// goroutine. If more workloads of a namespace change than it is worth to match, all its Services are
// synced, and no more changes are kept.
func TestTooManyChanges(t *testing.T) {
	for _, n := range []int{maxChanges, maxChanges + 1, 3 * maxChanges} {
		synctest.Test(t, func(t *testing.T) { // no time passes, after which the queue would have the namespace's key
			term := newTestTerm(t, many(10)...)
			for i := range n {
				term.workloadChanged(nil, aWorkload(fmt.Sprint("vm-", i), "10.0.0.1", "8080"))
			}
			if kept := len(term.changes.list["ns"]); kept > maxChanges+1 || term.queued() > 0 {
				t.Errorf("%d changes: %d are kept, %d keys in the queue", n, kept, term.queued())
			}
			want := 0
			if n > maxChanges {
				want = 10
			}
			term.queueConcerned(t.Context(), "ns")
			if got := term.queued(); got != want {
				t.Errorf("%d changes: %d Services in the queue", n, got)
			}
			if len(term.changes.list) != 0 {
				t.Error("the changes are kept")
			}
		})
	}
}
