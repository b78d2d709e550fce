package local

import (
	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore"
	"isthmus/federation"
)

// Describe describes nothing: the series are those that a clusterstore.Store
// describes, for one cluster more.
func (l *Local) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (l *Local) Collect(ch chan<- prometheus.Metric) {
	st := l.Status()
	for _, m := range clusterstore.StateMetrics(federation.Local, st.State, l.cluster.Health().Lost) {
		ch <- m
	}
}
