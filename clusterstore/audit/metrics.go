package audit

import (
	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
)

// counts are of one cluster, under Auditor.mu.
type counts struct {
	differences map[string]uint64 // by resource
	outcomes    map[outcome]uint64
}

// countsOf returns a cluster's counts. a.mu is held.
func (a *Auditor) countsOf(name federation.ClusterName) *counts {
	c := a.counts[name]
	if c == nil {
		// All begin at 0, so that a first difference is an increase.
		c = &counts{
			differences: map[string]uint64{"services": 0, "endpointslices": 0, "pods": 0, "externalworkloads": 0},
			outcomes:    map[outcome]uint64{same: 0, different: 0, failed: 0, skipped: 0},
		}
		a.counts[name] = c
	}
	return c
}

// metrics is a collector that reads an Auditor when it is scraped, so that series come and go
// with their clusters.
type metrics struct {
	auditor                        *Auditor
	differences, outcomes, waiting *prometheus.Desc
}

func newMetrics(a *Auditor) *metrics {
	return &metrics{
		auditor: a,
		differences: prometheus.NewDesc("isthmus_audit_differences_total",
			"Objects of which something else was known than the cluster's API had, for 10 s or more.", []string{"cluster", "resource"}, nil),
		outcomes: prometheus.NewDesc("isthmus_audits_total",
			"Audits of Services of a cluster: same, different, failed or skipped.", []string{"cluster", "outcome"}, nil),
		waiting: prometheus.NewDesc("isthmus_audit_waiting",
			"Services of a cluster whose audit is due.", []string{"cluster"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.differences
	ch <- m.outcomes
	ch <- m.waiting
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	clusters := m.auditor.opts.Clusters()
	for _, x := range m.read(clusters) {
		ch <- x
	}
}

func (m *metrics) read(clusters []federation.ClusterName) (list []prometheus.Metric) {
	a := m.auditor
	a.mu.Lock()
	defer a.mu.Unlock()
	add := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		list = append(list, prometheus.MustNewConstMetric(d, t, v, labels...))
	}
	for _, name := range clusters {
		c, waiting := a.countsOf(name), 0
		for resource, n := range c.differences {
			add(m.differences, prometheus.CounterValue, float64(n), name.String(), resource)
		}
		for how, n := range c.outcomes {
			add(m.outcomes, prometheus.CounterValue, float64(n), name.String(), string(how))
		}
		if w := a.workers[name]; w != nil {
			waiting = len(w.waiting)
		}
		add(m.waiting, prometheus.GaugeValue, float64(waiting), name.String())
	}
	return list
}
