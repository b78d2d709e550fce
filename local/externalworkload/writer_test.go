package externalworkload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWrites: a replica that is alone leads and writes.
func TestWrites(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.put(aService("web", "http=80/8080"))
		c.put(aWorkload("vm-1", "10.0.0.1", "8080"))
		other := change(aWorkload("vm-2", "10.0.0.2", "8080"))
		other.Labels["app"] = "other"
		c.put(other)
		elsewhere := aWorkload("vm-3", "10.0.0.3", "8080")
		elsewhere.Namespace = "other"
		c.put(elsewhere)
		r := c.start("a")
		c.until("EW-07: written", 5*time.Second, func() bool { return c.slices().String() == "IPv4 http=8080/TCP: vm-1=10.0.0.1" })
		if s := r.Status(); !s.Leading || !s.Synced || s.Services != 1 || s.Slices != 1 || s.Holder != "a" || s.Error != "" || len(s.Problems) != 0 {
			t.Errorf("status %+v", s)
		}
		c.pass(15 * time.Minute)
		if got := c.written(); got != "a create" {
			t.Errorf("later writes: %s", got)
		}
		r.stop()
		if got := c.lease(); got != "" {
			t.Errorf("%q holds the Lease still", got)
		}
	})
}

// running is a replica that has written vm-1 and vm-2 of Service web.
func (c *cluster) running() *replica {
	c.t.Helper()
	c.put(aService("web", "http=80/8080"))
	c.put(aWorkload("vm-1", "10.0.0.1", "8080"))
	c.put(aWorkload("vm-2", "10.0.0.2", "8080"))
	r := c.start("a")
	c.until("written", 5*time.Second, func() bool { return c.slices().String() == "IPv4 http=8080/TCP: vm-1=10.0.0.1 vm-2=10.0.0.2" })
	c.pass(2 * time.Second)
	c.written()
	return r
}

// TestFollows: changes of the Service and its workloads reach the slices soon, by
// one write each.
func TestFollows(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.running()
		vm1, web := aWorkload("vm-1", "10.0.0.1", "8080"), aService("web", "http=80/8080")
		step := func(what, want string) {
			t.Helper()
			c.pass(100 * time.Millisecond)
			if got := c.written(); got != want {
				t.Errorf("%s: writes %q, want %q\n%s", what, got, want, c.slices())
			}
			c.pass(2 * time.Second)
			if got := c.written(); got != "" {
				t.Errorf("%s: later writes %q", what, got)
			}
		}
		c.put(unready(vm1))
		step("not ready", "a update")
		vm1.Labels[corev1.LabelTopologyZone] = "zone-a"
		c.put(vm1)
		step("zone", "a update")
		vm1.Annotations = map[string]string{"x": "y"}
		c.put(vm1)
		step("annotation", "")
		vm1.Labels["app"] = "other"
		c.put(vm1)
		step("label", "a update")
		c.deleteWorkload("vm-1")
		step("gone", "")
		c.put(external(web))
		step("ExternalName", "a delete")
		c.put(aService("web", "http=80/8080"))
		step("a ClusterIP again", "a create")
		web = aService("web", "http=80/8080")
		web.Spec.Selector = nil
		c.put(web)
		step("no selector", "a delete")
	})
}

// TestCorrects: changes that others make to slices are undone.
func TestCorrects(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.running()
		const right = "IPv4 http=8080/TCP: vm-1=10.0.0.1 vm-2=10.0.0.2"
		for _, x := range []struct {
			name   string
			edit   func(*discoveryv1.EndpointSlice)
			writes string
		}{
			{"an endpoint", func(s *discoveryv1.EndpointSlice) { s.Endpoints = s.Endpoints[:1] }, "a update"},
			{"a label", func(s *discoveryv1.EndpointSlice) { s.Labels["x"] = "y" }, "a update"},
			{"the owner", func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil }, "a create, a delete"},
			{"the Service's name", func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "other" }, "a create"},
			{"who manages it", func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "other" }, "a create"},
		} {
			s := c.ours()
			x.edit(s)
			c.put(s)
			c.pass(5 * time.Second)
			if got := c.written(); got != x.writes || describe(c.ours()) != right {
				t.Errorf("%s: writes %q, slices\n%s", x.name, got, c.slices())
			}
		}
		if err := c.api.DiscoveryV1().EndpointSlices("ns").Delete(context.Background(), c.ours().Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.pass(5 * time.Second)
		if got := c.written(); got != "a create" || describe(c.ours()) != right {
			t.Errorf("deleted: writes %q, slices\n%s", got, c.slices())
		}
	})
}

// ours is the only slice of web that is ours.
func (c *cluster) ours() *discoveryv1.EndpointSlice {
	c.t.Helper()
	list := slices.DeleteFunc(c.slices().slices, func(s *discoveryv1.EndpointSlice) bool {
		return s.Labels[discoveryv1.LabelManagedBy] != Mark || s.Labels[discoveryv1.LabelServiceName] != "web"
	})
	if len(list) != 1 {
		c.t.Fatalf("%d slices", len(list))
	}
	return list[0]
}

// TestTerminatingSlice is EW-08: a slice that is being deleted does not count, however
// long that takes.
func TestTerminatingSlice(t *testing.T) {
	inCluster(t, func(c *cluster) {
		r := c.running()
		s := c.ours()
		s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.org/slow"}
		c.put(s)
		c.pass(time.Minute)
		if got, st := c.written(), r.Status(); got != "a create" || st.Error != "" {
			t.Errorf("EW-08: writes %q, status %+v", got, st)
		}
	})
}

// TestProblemsReported: what is left out is reported, logged once, and bounded.
func TestProblemsReported(t *testing.T) {
	inCluster(t, func(c *cluster) {
		r := c.running()
		for i := range 30 {
			c.put(aWorkload(fmt.Sprintf("x-%02d", i), "nowhere", "8080"))
		}
		c.pass(time.Minute)
		s := r.Status()
		if len(s.Problems) != 1 || s.Problems[0].Service != "ns/web" || len(s.Problems[0].Problems) != maxProblems+1 ||
			s.Problems[0].Problems[0] != `x-00: "nowhere" is no IP address` || s.Problems[0].Problems[maxProblems] != "20 more" {
			t.Errorf("problems %+v", s.Problems)
		}
		c.pass(15 * time.Minute)
		if n := r.log.FilterMessageSnippet("left out").Len(); n != 1 {
			t.Errorf("logged %d times", n)
		}
		for i := range 30 {
			c.deleteWorkload(fmt.Sprintf("x-%02d", i))
		}
		c.pass(time.Minute)
		if s := r.Status(); len(s.Problems) != 0 {
			t.Errorf("problems %+v", s.Problems)
		}
	})
}

// TestMetrics: the series of the queue are there from the start, if asked for.
func TestMetrics(t *testing.T) {
	inCluster(t, func(c *cluster) {
		r := c.running()
		names := []string{
			"workqueue_depth", "workqueue_adds_total", "workqueue_queue_duration_seconds", "workqueue_work_duration_seconds",
			"workqueue_unfinished_work_seconds", "workqueue_longest_running_processor_seconds", "workqueue_retries_total", "workqueue_drops_total",
		}
		if n, err := testutil.GatherAndCount(r.registry, names...); err != nil || n != len(names) {
			t.Errorf("%d series of %d: %v", n, len(names), err)
		}
		if got := testutil.ToFloat64(r.metrics.queue.adds); got == 0 {
			t.Error("no adds are counted")
		}
		if got := testutil.ToFloat64(r.metrics.writes.WithLabelValues("create")); got != 1 {
			t.Errorf("%v creates", got)
		}
		const leading = "isthmus_endpointslice_writer_leading"
		if err := testutil.GatherAndCompare(r.registry, strings.NewReader("# HELP "+leading+" 1 while this replica writes the EndpointSlices for ExternalWorkloads.\n# TYPE "+leading+" gauge\n"+leading+" 1\n"), leading); err != nil {
			t.Error(err)
		}
		r.metrics.queue.depth.Set(7) // as if keys were left
		r.stop()
		if got := testutil.ToFloat64(r.metrics.queue.depth); got != 0 {
			t.Errorf("depth %v after the end", got)
		}
	})
	term := newTestTerm(t)
	if n, err := testutil.GatherAndCount(term.o.Registerer.(interface {
		Gather() ([]*dto.MetricFamily, error)
	})); err != nil || n != 4 {
		t.Errorf("%d series without those of the queue: %v", n, err)
	}
}
