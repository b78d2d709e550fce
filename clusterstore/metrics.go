package clusterstore

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
)

// metrics reads the store when scraped, so that series come and go with their
// clusters.
type metrics struct {
	store                            *Store
	size, rotation, rejected, unread *prometheus.Desc
}

func stateDescs() (state, stale *prometheus.Desc) {
	return prometheus.NewDesc("isthmus_cluster_state",
			"1 for the state that a cluster is in: pending, unreachable, ready or stale.", []string{"cluster", "state"}, nil),
		prometheus.NewDesc("isthmus_cluster_stale_seconds",
			"For how long a cluster's API has been lost; 0 while it is followed.", []string{"cluster"}, nil)
}

// StateMetrics are the series that say how a cluster is doing, linked or local,
// now. lost is zero unless its API is lost.
func StateMetrics(cluster federation.ClusterName, s State, lost time.Time) []prometheus.Metric {
	seconds := 0.0
	if s == Stale && !lost.IsZero() {
		seconds = time.Since(lost).Seconds()
	}
	state, stale := stateDescs()
	return []prometheus.Metric{
		prometheus.MustNewConstMetric(state, prometheus.GaugeValue, 1, cluster.String(), string(s)),
		prometheus.MustNewConstMetric(stale, prometheus.GaugeValue, seconds, cluster.String()),
	}
}

func newMetrics(s *Store, r prometheus.Registerer) error {
	cluster := []string{"cluster"}
	return r.Register(&metrics{
		store: s,
		size: prometheus.NewDesc("cluster_store_size",
			"Number of linked clusters: those with a usable Secret, whatever their state.", nil, nil),
		rotation: prometheus.NewDesc("isthmus_cluster_rotation_failing",
			"1 while a linked cluster's new credentials do not work and those of before are used.", cluster, nil),
		rejected: prometheus.NewDesc("isthmus_link_secrets_rejected",
			"Number of link Secrets that are not used, being unusable or duplicates.", nil, nil),
		unread: prometheus.NewDesc("isthmus_link_secrets_unreadable",
			"1 while link Secrets can't be read, so that links stay as they are.", nil, nil),
	})
}

func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	state, stale := stateDescs()
	for _, d := range []*prometheus.Desc{state, stale, m.size, m.rotation, m.rejected, m.unread} {
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
		for _, x := range StateMetrics(name, v.state, v.cluster.Health().Lost) {
			ch <- x
		}
		var failing float64
		if v.failed {
			failing = 1
		}
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
	var unread float64
	if _, err := m.store.Secrets(); err != nil {
		unread = 1
	}
	gauge(m.unread, unread)
}
