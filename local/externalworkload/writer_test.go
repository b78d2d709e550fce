package externalworkload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/clusterstore/decode"
)

// TestWrites checks that a leader soon writes each difference in one write, and writes nothing
// else. The leader releases the Lease at the end.
//
// Behaviours: EW-07.
func TestWrites(t *testing.T) {
	running(t, func(r *replica) {
		if s := r.Status(); !s.Leading || !s.Synced || s.Services != 1 || s.Slices != 1 || s.Holder != "a" ||
			s.Error != "" || len(s.Problems) != 0 {
			t.Errorf("status %+v", s)
		}
		vm := unready(aWorkload("vm-1", "10.0.0.1", "8080"))
		r.put(vm)
		r.pass(100*time.Millisecond, "update")
		r.pass(15*time.Minute, "")
		other := aWorkload("vm-3", "10.0.0.3", "8080")
		other.Labels["app"] = "other"
		r.put(
			change(aWorkload("vm-1", "10.0.0.1", "8080"), unreadied, func(w *decode.ExternalWorkload) {
				w.Annotations = map[string]string{"x": "y"}
			}),
			other,
		)
		r.pass(time.Minute, "")
		r.put(external(aService("web", "http=80/8080")))
		r.pass(100*time.Millisecond, "delete")
		r.stop()
		if s := r.Status(); s.Leading || s.Holder != "" {
			t.Errorf("status at the end: %+v", s)
		}
	})
}

func unreadied(w *decode.ExternalWorkload) { unready(w) }

// TestCorrects checks that the leader reverts changes that others make to slices, including changes
// from before its leadership.
//
// Behaviours: EW-26.
func TestCorrects(t *testing.T) {
	running(t, func(r *replica) {
		const right = "IPv4 http=8080/TCP: vm-1=10.0.0.1 vm-2=10.0.0.2"
		ours := func() *discoveryv1.EndpointSlice {
			return slices.DeleteFunc(r.slices(), func(s *discoveryv1.EndpointSlice) bool {
				return s.Labels[discoveryv1.LabelManagedBy] != Mark || s.Labels[discoveryv1.LabelServiceName] != "web"
			})[0]
		}
		for _, x := range []struct {
			edit   func(*discoveryv1.EndpointSlice)
			writes string
		}{
			{func(s *discoveryv1.EndpointSlice) { s.Endpoints = s.Endpoints[:1] }, "update"},
			{func(s *discoveryv1.EndpointSlice) { s.Labels["x"] = "y" }, "update"},
			{func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil }, "create, delete"},
			{func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "other" }, "create"},
			{func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "other" }, "create"},
		} {
			s := ours().DeepCopy()
			x.edit(s)
			r.put(s)
			r.pass(5*time.Second, x.writes)
			r.want(right)
		}
		r.remove(ours())
		r.pass(5*time.Second, "create")
		r.want(right)
		r.fail("leases", errors.New("no answer"))
		time.Sleep(15 * time.Second)
		r.remove(ours())
		r.pass(time.Minute, "")
		r.fail("leases", nil)
		r.pass(10*time.Second, "create")
		r.want(right)
	})
}

// TestProblemsReported checks that problems are reported, logged once, bounded, and removed with
// their Service.
func TestProblemsReported(t *testing.T) {
	running(t, func(r *replica) {
		for i := range 30 {
			r.put(aWorkload(fmt.Sprintf("x-%02d", i), "nowhere", "8080"))
		}
		r.pass(15*time.Minute, "")
		s := r.Status()
		if len(s.Problems) != 1 || s.Problems[0].Service != "ns/web" || len(s.Problems[0].Problems) != maxProblems+1 ||
			s.Problems[0].Problems[0] != `x-00: "nowhere" is not an IP address` ||
			s.Problems[0].Problems[maxProblems] != "20 more" {
			t.Errorf("problems %+v", s.Problems)
		}
		if n := r.log.FilterMessageSnippet("EndpointSlices omit").Len(); n != 1 {
			t.Errorf("logged %d times", n)
		}
		r.cluster.mu.Lock()
		r.services, r.workloads = nil, nil
		r.cluster.mu.Unlock()
		r.Changed(nameOf(aService("web")))
		r.pass(time.Minute, "")
		if s := r.Status(); len(s.Problems) != 0 {
			t.Errorf("problems %+v", s.Problems)
		}
	})
}

// TestMetrics checks that the series of the queue exist from the start if they are enabled.
func TestMetrics(t *testing.T) {
	running(t, func(r *replica) {
		for name, want := range map[string]float64{
			"workqueue_depth":                             0,
			"workqueue_unfinished_work_seconds":           0,
			"workqueue_longest_running_processor_seconds": 0,
			"isthmus_endpointslice_writer_leading":        1,
		} {
			if got := gathered(t, r, name); got != want {
				t.Errorf("%s is %v", name, got)
			}
		}
		leadership := r.leading()
		leadership.mu.Lock()
		leadership.begun[nameOf(aService("web"))] = time.Now().Add(-3 * time.Second)
		leadership.begun[nameOf(aService("db"))] = time.Now().Add(-time.Second)
		leadership.waiting[nameOf(aService("web"))] = time.Now()
		leadership.mu.Unlock()
		for name, want := range map[string]float64{
			"workqueue_depth":                             1,
			"workqueue_unfinished_work_seconds":           4,
			"workqueue_longest_running_processor_seconds": 3,
		} {
			if got := gathered(t, r, name); got != want {
				t.Errorf("%s is %v", name, got)
			}
		}
		if n, err := testutil.GatherAndCount(
			r.registry, "workqueue_queue_duration_seconds", "workqueue_work_duration_seconds", "workqueue_drops_total",
		); n != 3 || err != nil {
			t.Errorf("%d series: %v", n, err)
		}
		if adds, creates := testutil.ToFloat64(r.metrics.adds), testutil.ToFloat64(
			r.metrics.writes.WithLabelValues("create"),
		); adds == 0 || creates != 1 {
			t.Errorf("%v adds, %v creates", adds, creates)
		}
		r.stop()
		if depth, leading := gathered(t, r, "workqueue_depth"), gathered(
			t, r, "isthmus_endpointslice_writer_leading",
		); depth+leading != 0 {
			t.Errorf("at the end: depth %v, leading %v", depth, leading)
		}
	})
}

func gathered(t *testing.T, r *replica, name string) float64 {
	t.Helper()
	all, err := r.registry.Gather()
	must(t, err)
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("metric %s does not exist", name)
	return 0
}

// TestFails checks that a Service whose slices cannot be written is retried indefinitely. Other
// Services are not delayed, and no slice of the failing Service is deleted meanwhile.
func TestFails(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "endpointslices"}, "x", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, x := range map[string]struct {
		err                error
		retries, inMinutes float64
		lines              int // number of log lines about failed writes
	}{
		"refused": {
			apierrors.NewInvalid(schema.GroupKind{Kind: "EndpointSlice"}, "x", nil), 11, 20, 1,
		},
		"conflict":                  {errChanged, 60, 1, 0},
		"the namespace is going":    {terminating, 0, 10, 0},
		"the API server is in need": {errors.New("no answer"), 11, 20, 1},
	} {
		t.Run(name, func(t *testing.T) {
			running(t, func(r *replica) {
				r.fail("create", x.err)
				r.put(change(aService("web", "http=80/8080"), func(s *corev1.Service) { s.UID = "another" }))
				r.pass(time.Duration(x.inMinutes*float64(time.Minute)), "")
				if got := testutil.ToFloat64(r.metrics.retries); got < x.retries-1 || got > x.retries+1 {
					t.Errorf("%v retries in %v minutes", got, x.inMinutes)
				}
				if s := r.Status(); (s.Error == "") != (x.retries == 0) || s.ErrorAt.IsZero() != (s.Error == "") {
					t.Errorf("status %+v", s)
				}
				if n := r.log.FilterMessageSnippet("cannot be written").Len(); n != x.lines {
					t.Errorf("%d log lines about failed writes", n)
				}
				r.fail("create", nil)
				r.put(unready(aWorkload("vm-2", "10.0.0.2", "8080")))
				r.pass(6*time.Minute, "create, delete")
			})
		})
	}
}

// TestNoWorkloads checks that slices do not change while ExternalWorkloads cannot be read. The
// problem is shown in the status. The problem is logged once unless the kind does not exist.
func TestNoWorkloads(t *testing.T) {
	resource := schema.GroupResource{Resource: workloadsName}
	for lines, err := range []error{
		apierrors.NewNotFound(resource, ""), apierrors.NewForbidden(resource, "", errors.New("no role")),
	} {
		running(t, func(r *replica) {
			set := func(err error) { r.cluster.mu.Lock(); r.cluster.unread = err; r.cluster.mu.Unlock() }
			set(err)
			r.put(aWorkload("vm-3", "10.0.0.3", "8080"))
			r.pass(5*time.Minute, "")
			if s := r.Status(); !s.Leading || s.Synced || len(s.Unread) != 1 || s.Unread[workloadsName] == "" {
				t.Errorf("status %+v", s)
			}
			if n := r.log.FilterMessageSnippet("cannot be read").Len(); n != lines {
				t.Errorf("%d lines: %v", n, r.log.All())
			}
			set(nil)
			r.pass(5*time.Second, "update")
		})
	}
}

// TestNoLongerReady checks that a Service is not synced if ExternalWorkloads become unreadable
// before its turn.
func TestNoLongerReady(t *testing.T) {
	svc := aService("web", "http=80/8080")
	leadership := newTestLeadership(t, svc)
	leadership.has.create(newSlice(svc, discoveryv1.AddressTypeIPv4, nil, nil))
	leadership.mark(nameOf(svc))
	task := leadership.pass().Tasks[0]
	leadership.unread = apierrors.NewNotFound(schema.GroupResource{Resource: workloadsName}, "")
	if o := task.Do(t.Context()); !o.Again || len(leadership.writes) > 0 || len(leadership.waiting) != 1 {
		t.Errorf("%+v, writes %v, %d waiting", o, leadership.writes, len(leadership.waiting))
	}
}

// TestConcerned checks which Services a change of a workload concerns. The Services are determined
// in the namespace's turn.
//
// Behaviours: EW-23, EW-24, EW-25.
func TestConcerned(t *testing.T) {
	blue, red := map[string]string{"app": "vm", "team": "blue"}, map[string]string{"app": "vm", "team": "red"}
	vm := func(labels map[string]string) *decode.ExternalWorkload {
		return change(aWorkload("vm-1", "10.0.0.1", "8080"), func(w *decode.ExternalWorkload) { w.Labels = labels })
	}
	for _, x := range []struct {
		name          string
		before, after *decode.ExternalWorkload
		times         int
		want          string
	}{
		{"new", nil, vm(blue), 1, "all blue"},
		{"gone", vm(red), nil, 1, "all red"},
		{"EW-24 the same labels", vm(blue), vm(blue), 1, "all blue"},
		{"EW-23 EW-25 other labels", vm(blue), vm(red), 1, "all blue red"},
		{"as many as are matched", nil, vm(blue), maxChanges, "all blue"},
		{"too many", nil, vm(blue), 3 * maxChanges, "all blue empty none red"},
	} {
		var services []*corev1.Service
		for name, selector := range map[string]map[string]string{
			"all":   {"app": "vm"},
			"blue":  {"team": "blue"},
			"red":   {"team": "red"},
			"none":  nil,
			"empty": {},
		} {
			services = append(services, change(aService(name, "80/8080"), func(s *corev1.Service) {
				s.Spec.Selector = selector
			}))
		}
		services = append(services, change(aService("elsewhere", "80/8080"), func(s *corev1.Service) {
			s.Namespace = "other"
		}))
		leadership := newTestLeadership(t, services...)
		for range x.times {
			leadership.workloadChanged(x.before, x.after)
		}
		if n := len(leadership.changes["ns"]); n > maxChanges+1 || len(leadership.waiting) > 0 {
			t.Errorf("%s: %d changes are queued", x.name, n)
		}
		tasks := leadership.pass().Tasks
		if len(tasks) != 1 || tasks[0].Turn != "ns" || len(leadership.waiting) > 0 {
			t.Fatalf("%s: %d tasks, %d waiting", x.name, len(tasks), len(leadership.waiting))
		}
		tasks[0].Do(t.Context())
		var got []string
		for svc := range leadership.waiting {
			got = append(got, svc.Name)
		}
		slices.Sort(got)
		if got := strings.Join(got, " "); got != x.want || len(leadership.changes) > 0 {
			t.Errorf("%s: %q, want %q; %d changes are still queued", x.name, got, x.want, len(leadership.changes))
		}
	}
}

// TestManyServices checks that changed workloads are matched at most once a second in a namespace
// with many Services.
func TestManyServices(t *testing.T) {
	for _, x := range []struct {
		services, changes int
		every             time.Duration // 2.4 s for all
		want              int
	}{
		{manyServices, 40, 60 * time.Millisecond, 40},
		{2 * manyServices, 40, 60 * time.Millisecond, 3},
		{2 * manyServices, 16, 150 * time.Millisecond, 3}, // with passes between changes
	} {
		running(t, func(r *replica) {
			for i := range x.services - 1 {
				r.put(change(aService(fmt.Sprint("s-", i), "80/8080"), func(s *corev1.Service) {
					s.Spec.Selector = map[string]string{"app": "none"}
				}))
			}
			r.pass(5*time.Second, "")
			before := r.matches.Load()
			for range x.changes {
				r.WorkloadChanged(nil, aWorkload("vm-1", "10.0.0.1", "8080"))
				time.Sleep(x.every)
			}
			if got := int(r.matches.Load() - before); got != x.want {
				t.Errorf("%d matches of %d changes with %d Services, want %d", got, x.changes, x.services, x.want)
			}
			r.pass(5*time.Second, "")
		})
	}
}

// TestServiceChanged checks that a Service is marked if ExternalWorkloads may concern it. Marking a
// Service must not walk over other objects.
func TestServiceChanged(t *testing.T) {
	web := aService("web", "80/8080")
	for name, x := range map[string]struct {
		with func(testLeadership)
		want int
	}{
		"nothing": {func(testLeadership) {}, 0},
		"workloads": {
			func(x testLeadership) { x.put(aWorkload("vm-1", "10.0.0.1", "8080")) }, 1,
		},
		"slices": {
			func(x testLeadership) { x.has.create(newSlice(web, discoveryv1.AddressTypeIPv4, nil, nil)) }, 1,
		},
		"what this leadership has written": {func(x testLeadership) { x.written[nameOf(web)] = true }, 1},
		"problems that are shown": {
			func(x testLeadership) { x.problems.Set(nameOf(web), []string{"vm: no"}) }, 1,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			leadership := newTestLeadership(t)
			x.with(leadership)
			leadership.serviceChanged(nameOf(web))
			if got := len(leadership.waiting); got != x.want || leadership.walks > 0 {
				t.Errorf("%s: %d waiting, want %d; %d walks over all workloads", name, got, x.want, leadership.walks)
			}
		})
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
