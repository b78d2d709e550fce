package grpcapi

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// value returns the value of a counter or gauge.
func value(m prometheus.Metric) float64 {
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		panic(err)
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

// series counts a collector's series.
func series(c prometheus.Collector) int {
	ch := make(chan prometheus.Metric, 10_000)
	c.Collect(ch)
	return len(ch)
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	r := prometheus.NewRegistry()
	w := newWorld(t, Options{Registerer: r})
	if _, err := New(w.table, w.server.dir, Options{Registerer: r}); err == nil {
		t.Error("a second server registered the same metrics")
	}
}
