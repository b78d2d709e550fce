package externalworkload

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// counted is a watch that counts as stopped once.
type counted struct {
	watch.Interface
	stop func()
}

func (w counted) Stop() {
	w.stop()
	w.Interface.Stop()
}

// follows reports whether the replica follows Services.
func (r *replica) follows() bool { return r.serviceWatches.Load() > 0 }

func (c *cluster) deleteWorkload(name string) {
	c.t.Helper()
	if err := c.workloads.in("ns").Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// TestIdle: Services are followed only while there are workloads or slices of ours, and
// the replica leads all the same.
func TestIdle(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.put(aService("web", "http=80/8080"))
		r := c.start("a")
		c.pass(resync + time.Minute)
		began := r.Status().Since
		for range 2 {
			if s := r.Status(); !s.Leading || !s.Synced || s.Since != began || len(s.Unread) > 0 || r.follows() {
				t.Errorf("without workloads: status %+v, began %v, follows Services %v", s, began, r.follows())
			}
			c.put(aWorkload("vm-1", "10.0.0.1", "8080"))
			c.pass(time.Second)
			if got := c.written(); got != "a create" || !r.follows() {
				t.Errorf("a workload: writes %q, follows Services %v", got, r.follows())
			}
			c.put(external(aService("web", "http=80/8080")))
			c.pass(3 * idleCheck)
			if got := c.written(); got != "a delete" || !r.follows() {
				t.Errorf("a workload without slices: writes %q, follows Services %v", got, r.follows())
			}
			c.put(aService("web", "http=80/8080"))
			c.pass(2 * time.Second)
			c.deleteWorkload("vm-1")
			c.pass(time.Second)
			if got := c.written(); got != "a create, a delete" || !r.follows() {
				t.Errorf("the workload is gone: writes %q, follows Services %v", got, r.follows())
			}
			c.pass(3 * idleCheck)
		}
		if got := c.lease(); got != "a" || r.follows() {
			t.Errorf("%q holds the Lease, a follows Services %v", got, r.follows())
		}
	})
}

// TestLeftOver: slices of workloads that were deleted while no replica ran are deleted,
// however long that fails.
func TestLeftOver(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.running().stop()
		c.deleteWorkload("vm-1")
		c.deleteWorkload("vm-2")
		c.fail("* delete endpointslices", errAway)
		b := c.start("b")
		c.pass(3 * idleCheck)
		if got := len(c.slices().slices); got != 1 || !b.follows() {
			t.Errorf("%d slices, follows Services %v", got, b.follows())
		}
		c.fail("* delete endpointslices", nil)
		c.pass(3 * idleCheck)
		if got := c.written(); got != "b delete" || b.follows() {
			t.Errorf("writes %q, follows Services %v", got, b.follows())
		}
	})
}

// TestKindAppears: where ExternalWorkloads are unknown, Services are not followed.
func TestKindAppears(t *testing.T) {
	inCluster(t, func(c *cluster) {
		unknown := apierrors.NewNotFound(schema.GroupResource{Resource: "externalworkloads"}, "")
		c.fail("* list externalworkloads", unknown)
		c.fail("* watch externalworkloads", unknown)
		c.put(aService("web", "http=80/8080"))
		r := c.start("a")
		c.pass(3 * idleCheck)
		if s := r.Status(); s.Synced || s.Unread["externalworkloads"] == "" || r.follows() {
			t.Errorf("status %+v, follows Services %v", s, r.follows())
		}
		c.fail("* list externalworkloads", nil)
		c.fail("* watch externalworkloads", nil)
		c.put(aWorkload("vm-1", "10.0.0.1", "8080"))
		c.pass(time.Minute)
		if got, s := c.written(), r.Status(); got != "a create" || !s.Synced || !r.follows() {
			t.Errorf("writes %q, status %+v", got, s)
		}
	})
}

// TestServicesUnread: while Services are needed and can't be read, Status has why.
func TestServicesUnread(t *testing.T) {
	inCluster(t, func(c *cluster) {
		r := c.start("a")
		c.fail("* list services", errAway)
		c.fail("* watch services", errAway)
		c.pass(time.Minute)
		if s := r.Status(); !s.Synced || len(s.Unread) > 0 {
			t.Errorf("without workloads: status %+v", s)
		}
		c.put(aService("web", "http=80/8080"))
		c.put(aWorkload("vm-1", "10.0.0.1", "8080"))
		c.pass(time.Minute)
		if s := r.Status(); s.Synced || s.Unread["services"] == "" {
			t.Errorf("with one: status %+v", s)
		}
		c.fail("* list services", nil)
		c.fail("* watch services", nil)
		c.pass(time.Minute)
		if got, s := c.written(), r.Status(); got != "a create" || !s.Synced || len(s.Unread) > 0 {
			t.Errorf("writes %q, status %+v", got, s)
		}
	})
}
