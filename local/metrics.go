package local

import (
	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore"
	"isthmus/federation"
)

func newProblemsDesc() *prometheus.Desc {
	return prometheus.NewDesc("isthmus_services_rejected",
		"Services whose federation annotations or labels can't be used, wholly or in part.", nil, nil)
}

// Describe describes what a clusterstore.Store does not: the other series are
// those that it describes, for one cluster more.
func (l *Local) Describe(ch chan<- *prometheus.Desc) { ch <- newProblemsDesc() }

// Collect implements prometheus.Collector.
func (l *Local) Collect(ch chan<- prometheus.Metric) {
	for _, m := range clusterstore.ClusterMetrics(federation.Local, l.Status().State, l.cluster.Health()) {
		ch <- m
	}
	l.mu.Lock()
	n := len(l.problems)
	l.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(newProblemsDesc(), prometheus.GaugeValue, float64(n))
}
