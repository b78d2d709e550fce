package main

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/local/exports/plan"
)

// exportMetrics collects what clusters export, and what becomes of it, when scraped. A cluster that is not linked has an empty
// label: annotations may name any number.
type exportMetrics struct {
	exporter                                            *exporter
	exports, refused, held, written, conflicts, pending *prometheus.Desc
}

func newExportMetrics(e *exporter) *exportMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &exportMetrics{
		exporter: e,
		exports:  desc("isthmus_exports", "Services that clusters export, once for each kind of object that they are written as, or would be.", "cluster", "kind"),
		refused: desc("isthmus_exports_refused", "Exports of which nothing is written, by reason: those states of docs/exports.md that are not written, being written, would be written, kept or held.",
			"cluster", "reason"),
		held:      desc("isthmus_exports_held", "What is written for exports that are gone, and stays for --unlinked-after; cluster empty: since it is linked no longer.", "cluster"),
		written:   desc("isthmus_written_services", "Services that this gateway has written for exports.", "kind"),
		conflicts: desc("isthmus_export_conflicts", "Differences between exports of one name.", "kind", "reason"),
		pending:   desc("isthmus_exports_pending", "Objects that are to be written or deleted for exports, or would be with --exports=on."),
	}
}

func (m *exportMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.exports, m.refused, m.held, m.written, m.conflicts, m.pending} {
		ch <- d
	}
}

func (m *exportMetrics) Collect(ch chan<- prometheus.Metric) {
	v := m.exporter.now.get().value
	if v.plan == nil {
		return
	}
	linked := make(map[string]bool)
	for _, c := range v.world.Clusters {
		linked[c.Name] = true
	}
	type key struct {
		d    *prometheus.Desc
		a, b string
	}
	counts := make(map[key]int)
	for name := range linked {
		counts[key{d: m.held, a: federation.ClusterName(name).String()}] = 0
	}
	for i := range v.plan.Verdicts {
		of, cluster := &v.plan.Verdicts[i], ""
		if linked[of.Cluster] {
			cluster = federation.ClusterName(of.Cluster).String()
		}
		counts[key{m.exports, cluster, string(of.Kind)}]++
		switch of.State {
		case plan.Written, plan.Kept, adminapi.ExportBeingWritten, adminapi.ExportWouldBeWritten:
		case plan.OnHold:
			counts[key{d: m.held, a: cluster}]++
		default:
			counts[key{m.refused, cluster, strings.ReplaceAll(string(of.State), " ", "_")}]++
		}
	}
	for i := range v.plan.Services {
		if o := v.world.Services[v.plan.Services[i].ID]; o != nil && v.world.Marked(o) {
			counts[key{d: m.written, a: string(v.plan.Services[i].Kind)}]++
		}
	}
	for _, c := range v.plan.Conflicts {
		counts[key{m.conflicts, string(c.Kind), c.Reason}]++
	}
	for k, n := range counts {
		labels := []string{k.a, k.b}
		if k.d == m.held || k.d == m.written {
			labels = labels[:1]
		}
		ch <- prometheus.MustNewConstMetric(k.d, prometheus.GaugeValue, float64(n), labels...)
	}
	ch <- prometheus.MustNewConstMetric(m.pending, prometheus.GaugeValue, float64(len(v.changes)))
}
