package clusterstore

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics reads the store when scraped, so that series come and go with their
// clusters.
type metrics struct {
	store                                  *Store
	size, state, stale, rotation, rejected *prometheus.Desc
}

func newMetrics(s *Store, r prometheus.Registerer) error {
	cluster := []string{"cluster"}
	return r.Register(&metrics{
		store: s,
		size: prometheus.NewDesc("cluster_store_size",
			"Number of linked clusters: those with a usable Secret, whatever their state.", nil, nil),
		state: prometheus.NewDesc("isthmus_cluster_state",
			"1 for the state that a linked cluster is in: pending, unreachable, ready or stale.", []string{"cluster", "state"}, nil),
		stale: prometheus.NewDesc("isthmus_cluster_stale_seconds",
			"For how long a linked cluster's API has been lost; 0 while it is followed.", cluster, nil),
		rotation: prometheus.NewDesc("isthmus_cluster_rotation_failing",
			"1 while a linked cluster's new credentials do not work and those of before are used.", cluster, nil),
		rejected: prometheus.NewDesc("isthmus_link_secrets_rejected",
			"Number of link Secrets that are not used, being unusable or duplicates.", nil, nil),
	})
}

func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.size, m.state, m.stale, m.rotation, m.rejected} {
		ch <- d
	}
}

func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	size := 0
	for name, v := range m.store.views() {
		if v.accepted == nil {
			continue
		}
		size++
		gauge(m.state, 1, string(name), string(v.state))
		var stale, failing float64
		if lost := v.cluster.Health().Lost; v.state == Stale && !lost.IsZero() {
			stale = time.Since(lost).Seconds()
		}
		if v.failed {
			failing = 1
		}
		gauge(m.stale, stale, string(name))
		gauge(m.rotation, failing, string(name))
	}
	gauge(m.size, float64(size))
	rejected := 0
	for _, st := range m.store.Status() {
		if st.State == Rejected {
			rejected++
		}
	}
	gauge(m.rejected, float64(rejected))
}
