package clusterstore

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore/cluster"
)

// Each scrape computes the following metrics of a Store, so series appear and disappear together
// with their clusters.
var (
	sizeDesc = prometheus.NewDesc("cluster_store_size",
		"Number of linked clusters, in any state, that have a usable link Secret.", nil, nil)
	secretsDesc = prometheus.NewDesc("isthmus_link_secrets",
		"Number of link Secrets, usable or not.", nil, nil)
	rotationDesc = prometheus.NewDesc("isthmus_cluster_rotation_failing",
		"1 if a linked cluster's new credentials do not work and the old credentials stay in use, 0 otherwise.",
		[]string{"cluster"}, nil)
	rejectedDesc = prometheus.NewDesc("isthmus_link_rejected",
		"Number of link Secrets whose current version is not used, by reason.", []string{"reason"}, nil)
	unreadableDesc = prometheus.NewDesc("isthmus_link_secrets_unreadable",
		"1 if link Secrets cannot be read, in which case the current links stay in effect; 0 otherwise.", nil, nil)
	aliveDesc = prometheus.NewDesc("isthmus_gateway_alive",
		"1 if a gateway address of a cluster on another network responds to probes, 0 if not. "+
			"Addresses that are not probed have no series.",
		[]string{"cluster", "address"},
		nil)
)

func newProbes() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "isthmus_gateway_probe_seconds",
		Help:    "Duration of successful and failed probes of a linked cluster's gateways.",
		Buckets: []float64{.05, .5, 2}, // few buckets, because each cluster has a histogram
	}, []string{"cluster"})
}

func registerStore(s *Store, r prometheus.Registerer) error {
	return errors.Join(r.Register(s.probes), r.Register(storeMetrics{s}))
}

type storeMetrics struct{ store *Store }

// Describe sends no descriptors, so the registry validates the metrics on each collection.
func (m storeMetrics) Describe(chan<- *prometheus.Desc) {}

func (m storeMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	links := m.store.publishedLinks()
	size := 0
	for name, v := range links {
		if v.accepted == nil {
			continue
		}
		size++
		for _, x := range cluster.Series(name, v.state, v.health()) {
			ch <- x
		}
		ch <- cluster.StandingSeries(name, v.standing.effective())
		gauge(rotationDesc, boolToFloat(v.next != nil && v.next.failed != nil), string(name))
		for address, alive := range v.probed() {
			gauge(aliveDesc, boolToFloat(alive), string(name), address)
		}
	}
	gauge(sizeDesc, float64(size))
	now, _ := m.store.secrets.Get()
	gauge(secretsDesc, float64(len(now.secrets)))
	reasons, clusters := m.store.rejected(links)
	for reason, n := range reasons {
		gauge(rejectedDesc, float64(n), reason)
	}
	for name := range clusters {
		ch <- cluster.StateSeries(name, cluster.Rejected)
	}
	_, err := m.store.SecretsListed()
	gauge(unreadableDesc, boolToFloat(err != nil))
}

func boolToFloat(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
