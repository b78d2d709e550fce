package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/clusterstore/crd"
)

// What local/election promises.
const (
	leaseDuration = 30 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

var errAway = errors.New("no answer")

// led starts replicas a and b on a Service with one workload; a leads.
func (c *cluster) led() (a, b *replica) {
	c.t.Helper()
	c.put(aService("web", "http=80/8080"))
	c.put(aWorkload("vm-1", "10.0.0.1", "8080"))
	a = c.start("a")
	c.until("a writes", 5*time.Second, func() bool { return len(c.slices().slices) == 1 })
	b = c.start("b")
	c.pass(10 * time.Second)
	if got := c.written(); got != "a create" || b.leads() {
		c.t.Fatalf("writes %s; b leads: %t", got, b.leads())
	}
	return a, b
}

// addWorkload puts one workload more, and returns the writes of the next seconds.
func (c *cluster) addWorkload(name, ip string) string {
	c.t.Helper()
	c.put(aWorkload(name, ip, "8080"))
	c.pass(3 * time.Second)
	return c.written()
}

// TestRelease: a replica that ends releases the Lease, and another takes it within
// seconds.
func TestRelease(t *testing.T) {
	inCluster(t, func(c *cluster) {
		a, b := c.led()
		a.stop()
		if got := c.lease(); got != "" || a.leads() {
			t.Fatalf("%q holds the Lease; a leads: %t", got, a.leads())
		}
		c.until("b leads", 3*retryPeriod, b.leads)
		if got := c.addWorkload("vm-2", "10.0.0.2"); got != "b update" {
			t.Errorf("writes %q", got)
		}
	})
}

// TestReleaseNotOurs: a replica that ends before it has read that the Lease has another
// holder does not release it.
func TestReleaseNotOurs(t *testing.T) {
	inCluster(t, func(c *cluster) {
		a, b := c.led()
		b.stop()
		c.hold("another")
		a.stop()
		if got := c.lease(); got != "another" {
			t.Errorf("%q holds the Lease", got)
		}
	})
	inCluster(t, func(c *cluster) {
		a, b := c.led()
		third := c.start("c")
		c.fail("a * *", errAway) // as if it stood still
		c.hold("b")
		c.until("b leads", 3*retryPeriod, b.leads)
		c.fail("a * *", nil)
		a.stop()
		for range 1000 {
			c.pass(10 * time.Millisecond)
			if !b.leads() || third.leads() {
				c.t.Fatalf("b leads: %t; c leads: %t", b.leads(), third.leads())
			}
		}
	})
}

// TestReleaseUnanswered: a replica that ends before the write that acquires the Lease
// was answered finds out whether it holds the Lease, and releases it.
func TestReleaseUnanswered(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.lose = errAway
		a := c.start("a")
		synctest.Wait()
		if got := c.lease(); got != "a" || a.leads() {
			c.t.Fatalf("%q holds the Lease; a leads: %t", got, a.leads())
		}
		a.stop()
		if got := c.lease(); got != "" {
			t.Errorf("%q holds the Lease", got)
		}
	})
}

// refused is a lease by which no write may begin.
type refused struct{ why error }

func (r refused) Write(func(context.Context) error) error { return r.why }

// TestNoLease: nothing is written unless the lease lets a write begin.
func TestNoLease(t *testing.T) {
	svc := aService("web", "80/8080")
	term := newTestTerm(t, svc)
	term.still.workloads = []*crd.ExternalWorkload{aWorkload("vm-1", "10.0.0.1", "8080")}
	allowed := term.lease
	term.lease = refused{errAway}
	if err := term.sync(t.Context(), nameOf(svc)); !errors.Is(err, errAway) || len(term.api.Actions()) > 0 {
		t.Errorf("%v, requests %v", err, term.api.Actions())
	}
	term.lease = allowed
	if err := term.sync(t.Context(), nameOf(svc)); err != nil || len(term.api.Actions()) != 1 {
		t.Errorf("%v, requests %v", err, term.api.Actions())
	}
}

// TestLeaderCutOff: a replica that can't renew the Lease has stopped long before another
// takes it.
func TestLeaderCutOff(t *testing.T) {
	inCluster(t, func(c *cluster) {
		a, b := c.led()
		c.fail("a * *", errAway)
		cut := time.Now()
		c.until("a stops", renewDeadline, func() bool { return !a.leads() })
		c.put(aWorkload("vm-2", "10.0.0.2", "8080"))
		c.until("b leads", leaseDuration+retryPeriod*3, b.leads)
		if took := time.Since(cut); took < leaseDuration-retryPeriod {
			t.Errorf("b leads after %v", took)
		}
		c.pass(3 * time.Second)
		if got := c.written(); got != "b update" {
			t.Errorf("writes %q", got)
		}
		if s := a.Status(); s.LeaseError == "" || s.Leading {
			t.Errorf("status of a: %+v", s)
		}
		c.fail("a * *", nil)
		c.until("a sees b", 5*time.Second, func() bool { return a.Status().Holder == "b" && a.Status().LeaseError == "" })
		if n := a.log.FilterMessageSnippet("can't be used").Len(); n != 1 {
			t.Errorf("a has logged %d times that the Lease can't be used", n)
		}
	})
}

// TestLeaseTaken: a replica that finds another holder, or no Lease, stops at once, and
// takes part in the next election.
func TestLeaseTaken(t *testing.T) {
	inCluster(t, func(c *cluster) {
		a, b := c.led()
		b.stop()
		c.hold("another")
		c.until("a stops", retryPeriod*2, func() bool { return !a.leads() })
		if got := c.addWorkload("vm-2", "10.0.0.2"); got != "" {
			t.Errorf("writes %q without the Lease", got)
		}
		c.until("a leads again", leaseDuration+retryPeriod*3, a.leads)
		c.pass(3 * time.Second)
		if got := c.written(); got != "a update" {
			t.Errorf("writes %q", got)
		}
		if err := c.api.CoordinationV1().Leases("linkerd").Delete(context.Background(), leaseName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.until("a stops", retryPeriod*2, func() bool { return !a.leads() })
		c.until("a leads again", leaseDuration, a.leads)
	})
}

// TestRegained is EW-26: a slice deleted while no replica led is created again, and
// the former term does not prevent it.
func TestRegained(t *testing.T) {
	inCluster(t, func(c *cluster) {
		a, b := c.led()
		b.stop()
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
		a, b := c.led()
		b.stop()
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
