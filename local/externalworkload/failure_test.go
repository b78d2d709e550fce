package externalworkload

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestRefused: while an API server refuses one Service's slices, others are written; that one is tried again
// for ever, five minutes apart at most, and after its next change.
func TestRefused(t *testing.T) {
	inCluster(t, func(c *cluster) {
		r := c.running()
		c.fail("* update endpointslices", apierrors.NewInvalid(schema.GroupKind{Kind: "EndpointSlice"}, "x", nil))
		c.put(unready(aWorkload("vm-1", "10.0.0.1", "8080")))
		c.serviceIn("ns", "db")
		c.pass(time.Second)
		if got := c.written(); got != "a create" {
			t.Errorf("writes %q", got)
		}
		if s := r.Status(); !strings.Contains(s.Error, "invalid") || s.ErrorAt.IsZero() {
			t.Errorf("status %+v", s)
		}
		c.pass(20 * time.Minute)
		if n := r.log.FilterMessageSnippet("can't be written").Len(); n != 1 {
			t.Errorf("%d lines that it can't be written", n)
		}
		if got := testutil.ToFloat64(r.metrics.queue.retries); got < 10 || got > 13 {
			t.Errorf("%v retries in 20 minutes", got)
		}
		c.fail("* update endpointslices", nil)
		c.put(unready(aWorkload("vm-2", "10.0.0.2", "8080")))
		c.pass(time.Second)
		if got := c.written(); got != "a update" {
			t.Errorf("writes %q", got)
		}
	})
}

// TestConflict: after a conflict the write is tried again soon, however often.
func TestConflict(t *testing.T) {
	inCluster(t, func(c *cluster) {
		r := c.running()
		c.fail("* update endpointslices", apierrors.NewConflict(schema.GroupResource{Resource: "endpointslices"}, "x", errors.New("another version")))
		c.put(unready(aWorkload("vm-1", "10.0.0.1", "8080")))
		c.pass(10 * time.Second)
		if n := testutil.ToFloat64(r.metrics.queue.retries); n < 9 || n > 10 {
			t.Errorf("%v retries in 10 s", n)
		}
	})
}

// TestNothingWithdrawn: while a write is refused, nothing is deleted.
func TestNothingWithdrawn(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.running()
		c.fail("* create endpointslices", apierrors.NewInvalid(schema.GroupKind{Kind: "EndpointSlice"}, "x", nil))
		web := aService("web", "http=80/8080")
		web.UID = "another"
		c.put(web)
		c.pass(time.Second)
		if got := c.written(); got != "" {
			t.Errorf("writes %q", got)
		}
		c.fail("* create endpointslices", nil)
		c.pass(time.Minute)
		if got := c.written(); got != "a create, a delete" {
			t.Errorf("writes %q", got)
		}
	})
}

// TestNamespaceTerminating: nothing can be created in such a namespace, and that is no
// failure.
func TestNamespaceTerminating(t *testing.T) {
	inCluster(t, func(c *cluster) {
		r := c.running()
		refused := apierrors.NewForbidden(schema.GroupResource{Resource: "endpointslices"}, "x", errors.New("going"))
		refused.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		c.fail("* create endpointslices", refused)
		c.put(aService("web", "http=80/8080"))
		for _, w := range workloads(200) {
			c.put(w)
		}
		c.pass(time.Minute)
		if s := r.Status(); s.Error != "" {
			t.Errorf("status %+v", s)
		}
	})
}

// TestNoWorkloads: where ExternalWorkloads, or what else slices are made of, are unknown or can't be read,
// that is shown, slices stay as they are, and they are followed once all can be read. For workloads one line
// is logged, unless the kind is not installed; for the others the cluster logs.
func TestNoWorkloads(t *testing.T) {
	for _, x := range []struct {
		name, resource string
		why            func(schema.GroupResource, string) error
		lines          int
	}{
		{"no such resource", "externalworkloads", func(r schema.GroupResource, name string) error { return apierrors.NewNotFound(r, name) }, 0},
		{"forbidden", "externalworkloads", forbidden, 1},
		{"Services", "services", forbidden, 0},
		{"slices", "endpointslices", forbidden, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				c.running().stop()
				set := func(err error) {
					c.fail("* list "+x.resource, err)
					c.fail("* watch "+x.resource, err)
				}
				set(x.why(schema.GroupResource{Resource: x.resource}, ""))
				b := c.start("b")
				c.put(aWorkload("vm-3", "10.0.0.3", "8080"))
				c.pass(5 * time.Minute)
				if s := b.Status(); !s.Leading || s.Synced != (x.resource != "externalworkloads") || s.Unread[x.resource] == "" || len(s.Unread) != 1 {
					t.Errorf("status %+v", s)
				}
				if got, n := c.written(), b.log.FilterMessageSnippet("can't be read").Len(); got != "" || n != x.lines {
					t.Errorf("writes %q, %d lines", got, n)
				}
				set(nil)
				c.pass(time.Minute)
				if got, s := c.written(), b.Status(); got != "b update" || !s.Synced || len(s.Unread) > 0 {
					t.Errorf("writes %q, status %+v", got, s)
				}
			})
		})
	}
}

func forbidden(r schema.GroupResource, name string) error {
	return apierrors.NewForbidden(r, name, errors.New("no role"))
}
