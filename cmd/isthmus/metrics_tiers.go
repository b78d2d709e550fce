package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
)

// tierMetrics collects which tiers are in use of watched services with a preference, when
// scraped. Zones are those of the local cluster's Nodes; empty: not known.
type tierMetrics struct {
	table          *federation.Table
	inUse, changes *prometheus.Desc
}

func newTierMetrics(t *federation.Table) *tierMetrics {
	return &tierMetrics{
		table: t,
		inUse: prometheus.NewDesc("isthmus_tier_in_use",
			"How many tiers besides the first clients of a zone use of a service with a preference, at the port where they use most; /debug/services shows why.",
			[]string{"namespace", "service", "zone"}, nil),
		changes: prometheus.NewDesc("isthmus_tier_changes_total",
			"How often clients of a zone have come to use more tiers (spill), or fewer (return), while the service was watched.",
			[]string{"namespace", "service", "direction"}, nil),
	}
}

// Describe implements prometheus.Collector. It describes nothing: that is checked when metrics are read.
func (m *tierMetrics) Describe(chan<- *prometheus.Desc) {}

func (m *tierMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, s := range m.table.Steered(false) {
		if len(s.Preference.Tiers) == 0 {
			continue // a cluster of last resort makes it one of those
		}
		id := s.Service
		for zone, n := range s.InUse {
			ch <- prometheus.MustNewConstMetric(m.inUse, prometheus.GaugeValue, float64(n-1), id.Namespace, id.Name, zone)
		}
		ch <- prometheus.MustNewConstMetric(m.changes, prometheus.CounterValue, float64(s.Spills), id.Namespace, id.Name, "spill")
		ch <- prometheus.MustNewConstMetric(m.changes, prometheus.CounterValue, float64(s.Returns), id.Namespace, id.Name, "return")
	}
}
