package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// retryPeriod is how often local/election looks at the Lease.
const retryPeriod = 2 * time.Second

// TestRegained is EW-26: a slice deleted while no replica led is created again, and
// the former term does not prevent it.
func TestRegained(t *testing.T) {
	inCluster(t, func(c *cluster) {
		a := c.running()
		c.hold("another")
		c.until("a stops", retryPeriod*2, func() bool { return !a.leads() })
		gone := c.slices().slices[0]
		if err := c.api.DiscoveryV1().EndpointSlices("ns").Delete(context.Background(), gone.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.hold("")
		c.until("a leads again", 3*retryPeriod, a.leads)
		c.pass(time.Second)
		if got, s := c.written(), a.Status(); got != "a create" || s.Error != "" {
			t.Errorf("EW-26: writes %q, status %+v", got, s)
		}
	})
}

// TestLeaseForbidden: it is logged once, and does no harm.
func TestLeaseForbidden(t *testing.T) {
	inCluster(t, func(c *cluster) {
		forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, leaseName, errors.New("no role"))
		c.fail("* get leases", forbidden)
		c.put(aService("web", "http=80/8080"))
		c.put(aWorkload("vm-1", "10.0.0.1", "8080"))
		a := c.start("a")
		c.pass(time.Minute)
		if s := a.Status(); s.Leading || s.LeaseError == "" {
			t.Errorf("status %+v", s)
		}
		if n := a.log.Len(); n != 1 || c.written() != "" {
			t.Errorf("%d lines are logged: %v", n, a.log.All())
		}
		c.fail("* get leases", nil)
		c.until("a leads", 5*time.Second, a.leads)
		c.pass(time.Second)
		if got, s := c.written(), a.Status(); got != "a create" || s.LeaseError != "" {
			t.Errorf("writes %q, status %+v", got, s)
		}
	})
}

// TestUnderWay: a lost Lease ends also the writes that are under way, and none
// begins after that; at a shutdown they are finished first, and then the Lease released.
func TestUnderWay(t *testing.T) {
	begin := func(c *cluster) (a *replica, release func()) {
		a = c.running()
		for i := range workersForOne - 1 {
			c.put(aService(fmt.Sprint("web-", i), "http=80/8080"))
		}
		c.pass(2 * time.Second)
		c.written()
		release = c.slow.hang()
		c.put(unready(aWorkload("vm-1", "10.0.0.1", "8080")))
		c.pass(time.Second)
		c.put(aService("other", "http=80/8080"))
		c.pass(time.Second)
		if begun, aborted := c.slow.counts(); begun != workersForOne || aborted != 0 {
			c.t.Fatalf("%d writes are under way, %d aborted", begun, aborted)
		}
		return a, release
	}
	t.Run("lost", func(t *testing.T) {
		inCluster(t, func(c *cluster) {
			a, release := begin(c)
			defer release()
			c.hold("another")
			c.until("a stops", retryPeriod*2, func() bool { return !a.leads() })
			begun, aborted := c.slow.counts()
			if got := c.written(); begun != workersForOne || aborted != workersForOne || got != "" {
				t.Errorf("%d writes begun, %d aborted; writes %q", begun, aborted, got)
			}
		})
	})
	t.Run("shutdown", func(t *testing.T) {
		inCluster(t, func(c *cluster) {
			a, release := begin(c)
			go a.stop()
			c.pass(time.Second)
			if got := c.lease(); got != "a" {
				t.Errorf("%q holds the Lease while a writes", got)
			}
			release()
			a.stop()
			if got := c.written(); got != strings.TrimPrefix(strings.Repeat(", a update", workersForOne), ", ") || c.lease() != "" {
				t.Errorf("writes %q; %q holds the Lease", got, c.lease())
			}
		})
	})
}
