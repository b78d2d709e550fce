package local

import (
	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore/cluster"
	"isthmus/federation"
)

func newProblemsDesc() *prometheus.Desc {
	return prometheus.NewDesc("isthmus_services_rejected",
		"Services whose federation annotations or labels can't be used, wholly or in part.", nil, nil)
}

func newProfilesDesc() *prometheus.Desc {
	return prometheus.NewDesc("isthmus_service_profiles_rejected", "ServiceProfiles that can't be used.", nil, nil)
}

// Describe implements prometheus.Collector. It describes only what the store of
// linked clusters does not: the other series of Collect belong to metrics that the
// store describes, with this cluster's name.
func (l *Local) Describe(ch chan<- *prometheus.Desc) {
	ch <- newProblemsDesc()
	ch <- newProfilesDesc()
}

// Collect implements prometheus.Collector.
func (l *Local) Collect(ch chan<- prometheus.Metric) {
	h := l.cluster.Health()
	for _, m := range cluster.Series(federation.Local, l.Status().State, h) {
		ch <- m
	}
	ch <- cluster.StandingSeries(federation.Local, l.cordon)
	ch <- prometheus.MustNewConstMetric(newProblemsDesc(), prometheus.GaugeValue, float64(len(l.Problems())))
	ch <- prometheus.MustNewConstMetric(newProfilesDesc(), prometheus.GaugeValue, float64(h.RejectedProfiles))
}
