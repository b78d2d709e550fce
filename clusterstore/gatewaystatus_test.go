package clusterstore

import (
	"testing"
	"time"
)

// TestGatewaysReported: what becomes of gateways is logged and reported once.
func TestGatewaysReported(t *testing.T) {
	inBubble(t, func(e *env) {
		f := e.linkBehind(probed(gateway("192.0.2.1", "192.0.2.2")), "network", "far")
		e.sync(1)
		e.reported("east 0 pending", "east 0 ready")
		f.kill("192.0.2.1")
		e.pass(time.Minute)
		e.reported("east 3 !Linkerd gateway 192.0.2.1:4143 does not answer probes: connection refused")
		f.kill("192.0.2.1", "192.0.2.2")
		e.pass(time.Minute)
		e.reported("east 1 !last-resort: none of its Linkerd gateways answers", "east 3 !Linkerd gateway 192.0.2.2:4143 does not answer probes: connection refused")
		f.kill("192.0.2.2")
		e.pass(time.Minute)
		e.reported("east 1 in-service: not cordoned, and its API is followed", "east 3 Linkerd gateway 192.0.2.1:4143 answers probes again")
		e.put(secret("s", "east", "t1", 0))
		e.pass(time.Minute)
		e.reported()
		if n := e.logs.FilterMessage("Linkerd gateway does not answer probes").Len(); n != 2 {
			t.Errorf("%d lines for gateways that have died", n)
		}
		if n := e.logs.FilterMessage("Linkerd gateway answers probes again").Len(); n != 1 {
			t.Errorf("%d lines for gateways that are back", n)
		}
	})
}
