package externalworkload

import (
	"fmt"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// serviceIn puts a Service with one workload into a namespace.
func (c *cluster) serviceIn(namespace, name string) {
	vm, svc := aWorkload(name+"-vm", "10.0.0.1", "8080"), aService(name, "http=80/8080")
	vm.Namespace, svc.Namespace = namespace, namespace
	svc.Spec.Selector = map[string]string{"vm": name}
	vm.Labels = svc.Spec.Selector
	c.put(vm)
	c.put(svc)
}

// has reports whether a Service has a slice.
func (c *cluster) has(namespace, name string) bool {
	for _, s := range c.slices().slices {
		if s.Namespace == namespace && s.Labels[discoveryv1.LabelServiceName] == name {
			return true
		}
	}
	return false
}

// TestHangingWrite: a write that hangs delays its own Service only, and all writes of a
// namespace delay that only.
func TestHangingWrite(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.slow.takes = func(s *discoveryv1.EndpointSlice) time.Duration {
			if s.Namespace == "stuck" && s.Labels[discoveryv1.LabelServiceName] != "well" {
				return time.Hour
			}
			return 0
		}
		r := c.start("a")
		c.until("a leads", 5*time.Second, func() bool { return r.Status().Synced })
		c.serviceIn("stuck", "web")
		c.pass(time.Second)
		c.serviceIn("stuck", "well")
		c.pass(time.Second)
		if !c.has("stuck", "well") {
			t.Error("another Service waits for the write that hangs")
		}
		for i := range 60 {
			c.serviceIn("stuck", fmt.Sprint("web-", i))
		}
		c.pass(time.Second)
		c.serviceIn("quiet", "web")
		c.pass(time.Second)
		if !c.has("quiet", "web") {
			t.Error("another namespace waits for writes that hang")
		}
		c.pass(requestTimeout)
		if r.Status().Error == "" || c.has("stuck", "web") {
			t.Errorf("what hangs is not given up: %+v", r.Status())
		}
	})
}
