package cluster

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/internal/metricstest"
)

// TestSeries: the metrics of a cluster's caches have the names of those of Linkerd's
// destination controller; of endpoints and endpointslices, the one not read is 0.
func TestSeries(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectorOf(Series("east", Ready, Health{Health: follow.Health{Resources: []follow.ResourceHealth{
		{Resource: "pods", Objects: 3}, {Resource: "endpointslices", Objects: 2}, {Resource: "servers"},
	}}})))
	metricstest.Check(t, registry,
		"endpoints_cache_size cluster=east 0",
		"endpointslices_cache_size cluster=east 2",
		"isthmus_cluster_stale_seconds cluster=east 0",
		"isthmus_cluster_state cluster=east state=ready 1",
		"pod_cache_size cluster=east 3",
		"server_cache_size cluster=east 0",
	)
}

type collectorOf []prometheus.Metric

func (c collectorOf) Describe(chan<- *prometheus.Desc) {}

func (c collectorOf) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c {
		ch <- m
	}
}
