package clusterstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// TestGatewayMetrics: there are series of gateways while there are gateways that are probed.
func TestGatewayMetrics(t *testing.T) {
	inBubble(t, func(e *env) {
		registry := prometheus.NewRegistry()
		if err := registerStore(e.store, registry); err != nil {
			t.Fatal(err)
		}
		has := func(want ...string) {
			t.Helper()
			var got []string
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					switch f.GetName() {
					case "isthmus_gateway_alive":
						got = append(got, fmt.Sprint(m.GetLabel()[0].GetValue(), " ", m.GetLabel()[1].GetValue(), " ", m.GetGauge().GetValue()))
					case "isthmus_gateway_probe_seconds":
						got = append(got, fmt.Sprint(m.GetLabel()[0].GetValue(), " ", m.GetHistogram().GetSampleCount() > 0))
					}
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		f := e.linkBehind(probed(gateway("192.0.2.1", "192.0.2.2")))
		e.sync(1)
		has()
		f.kill("192.0.2.1")
		e.put(with(secret("s", "east", "t1", 0), "network", "far"))
		has("192.0.2.2:4143 east 1", "east true") // the other has failed once
		e.pass(3 * time.Second)
		has("192.0.2.1:4143 east 0", "192.0.2.2:4143 east 1", "east true")
		e.put(secret("s", "east", "t1", 0))
		has()
		e.put(with(secret("s", "east", "t1", 0), "network", "far"))
		has("192.0.2.2:4143 east 1", "east true")
		e.remove("s")
		has()
	})
}
