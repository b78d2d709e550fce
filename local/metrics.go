package local

import (
	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

var (
	problemsDesc = prometheus.NewDesc("isthmus_services_rejected",
		"Services whose federation annotations or labels can't be used, wholly or in part.", nil, nil)
	profilesDesc = prometheus.NewDesc("isthmus_service_profiles_rejected", "ServiceProfiles that can't be used.", nil, nil)
)

// Describe implements prometheus.Collector. It describes nothing: that is checked when metrics are read.
func (l *Local) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (l *Local) Collect(ch chan<- prometheus.Metric) {
	h := l.cluster.Health()
	for _, m := range cluster.Series(federation.Local, l.Status().State, h) {
		ch <- m
	}
	ch <- cluster.StandingSeries(federation.Local, l.cordon)
	ch <- prometheus.MustNewConstMetric(problemsDesc, prometheus.GaugeValue, float64(len(l.Problems())))
	ch <- prometheus.MustNewConstMetric(profilesDesc, prometheus.GaugeValue, float64(h.RejectedProfiles))
}
