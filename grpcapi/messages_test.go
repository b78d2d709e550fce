package grpcapi

import (
	"strings"
	"testing"
	"testing/synctest"

	"isthmus/federation"
)

// TestMessagesOfEachKind counts the messages of a stream whose endpoints come and
// go: one for what is put, one for what is gone, whatever stands behind the
// addresses. The numbers are those of the reference's test cases.
func TestMessagesOfEachKind(t *testing.T) {
	gateway := func(e *federation.Endpoint) {
		e.Kind, e.Meshed, e.InboundPort, e.Twin, e.Common.Labels = federation.Address, false, 0, "", nil
		e.Common.Identity, e.Common.Authority = federation.Identity{DNS: "some-identity"}, "some-auth.com:2"
	}
	workload := func(e *federation.Endpoint) {
		e.Kind, e.Common.Identity = federation.Workload, federation.Identity{URI: "spiffe://root/vm", ServerName: "vm.example"}
	}
	type step struct{ offer, want string }
	two := []step{{"10.0.0.1:80 10.0.0.2:80", "add 10.0.0.1:80 10.0.0.2:80"}, {"10.0.0.2:80", "remove 10.0.0.1:80"}}
	back := []step{{"10.0.0.1:80", "add 10.0.0.1:80"}, {"", "no_endpoints(true)"}, {"10.0.0.1:80", "add 10.0.0.1:80"}}
	three := []step{
		{"10.0.0.1:80 10.0.0.2:80 [2001:db8::94]:80", "add 10.0.0.1:80 10.0.0.2:80 [2001:db8::94]:80"},
		{"10.0.0.1:80 10.0.0.2:80", "remove [2001:db8::94]:80"},
	}
	for _, tc := range []struct {
		name  string
		kind  func(*federation.Endpoint)
		steps []step
	}{
		{"X-01 gateways", gateway, two},
		{"X-02 gateway that comes back", gateway, back},
		{"X-06 pods", func(*federation.Endpoint) {}, two},
		{"X-07 pods, one of them IPv6", func(*federation.Endpoint) {}, three},
		{"X-13 external workloads", workload, two},
		{"X-14 external workloads, one of them IPv6", workload, three},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{Pace: -1, H2Upgrade: true})
				w.define(false, "")
				var c *caller
				for _, s := range tc.steps {
					eps := pods(strings.Fields(s.offer)...)
					for _, e := range eps {
						tc.kind(e)
					}
					w.offer("", eps...)
					if c == nil {
						c = w.get(webAddr, "")
						defer c.hangUp()
					}
					c.sees(t, s.want)
				}
			})
		})
	}
}
