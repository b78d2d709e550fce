package local

import (
	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore"
	"isthmus/federation"
)

// Describe describes nothing: most of the series are those that a
// clusterstore.Store describes, for one cluster more.
func (l *Local) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (l *Local) Collect(ch chan<- prometheus.Metric) {
	st, h := l.Status(), l.cluster.Health()
	for _, m := range clusterstore.StateMetrics(federation.Local, st.State, h.Lost) {
		ch <- m
	}
	rejected := prometheus.NewDesc("isthmus_service_profiles_rejected", "Number of ServiceProfiles that can't be used.", nil, nil)
	ch <- prometheus.MustNewConstMetric(rejected, prometheus.GaugeValue, float64(h.RejectedProfiles))
}
