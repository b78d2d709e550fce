package main

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/local/exports/plan"
)

// collect collects what clusters export, and what becomes of it, when scraped. A cluster that is not linked has an empty
// label: annotations may name any number.
func (e *exporter) collect(ch chan<- prometheus.Metric) {
	v := e.now.get().value
	unknown := gauges("isthmus_exports_plan_unknown",
		"1 while it is not known what is to be written for exports, so that nothing is written, else 0.")
	if v.plan == nil {
		unknown.WithLabelValues().Set(1)
		unknown.Collect(ch)
		return
	}
	unknown.WithLabelValues().Set(0)
	exports := gauges("isthmus_exports", "Services that clusters export, once for each kind of object that they are written as, or would be.", "cluster", "kind")
	refused := gauges("isthmus_exports_refused", "Exports of which nothing is written, by reason: those states of docs/exports.md that are not written, being written, would be written, kept or held.",
		"cluster", "reason")
	held := gauges("isthmus_exports_held", "What is written for exports that are gone, and stays for --unlinked-after; cluster empty: since it is linked no longer.", "cluster")
	written := gauges("isthmus_written_services", "Services that this gateway has written for exports.", "kind")
	conflicts := gauges("isthmus_export_conflicts", "Differences between exports of one name.", "kind", "reason")
	pending := gauges("isthmus_exports_pending", "Objects that are to be written or deleted for exports, or would be with --exports=on.")
	pending.WithLabelValues().Set(float64(len(v.changes)))
	fullest := gauges("isthmus_exports_limit_ratio",
		"Part of --max-exports-per-link, or of --max-exports-per-namespace, that exports use, "+
			"for the link and the namespace that use most. Above 1, some exports are not written.",
		"per", "cluster", "namespace")
	linked := make(map[string]bool)
	for _, c := range v.world.Clusters {
		linked[c.Name] = true
	}
	held.WithLabelValues(federation.Local.String())
	for i := range v.plan.Verdicts {
		of, cluster := &v.plan.Verdicts[i], ""
		if linked[of.Cluster] {
			cluster = federation.ClusterName(of.Cluster).String()
		}
		exports.WithLabelValues(cluster, string(of.Kind)).Inc()
		switch of.State {
		case plan.Written, plan.Kept, adminapi.ExportBeingWritten, adminapi.ExportWouldBeWritten:
		case plan.OnHold:
			held.WithLabelValues(cluster).Inc()
		default:
			refused.WithLabelValues(cluster, strings.ReplaceAll(string(of.State), " ", "_")).Inc()
		}
	}
	for i := range v.plan.Services {
		if o := v.world.Services[v.plan.Services[i].ID]; o != nil && v.world.Marked(o) {
			written.WithLabelValues(string(v.plan.Services[i].Kind)).Inc()
		}
	}
	for _, f := range v.plan.Fullest {
		fullest.WithLabelValues(f.Per, federation.ClusterName(f.Cluster).String(), f.Namespace).Set(f.Ratio())
	}
	for _, c := range v.plan.Conflicts {
		conflicts.WithLabelValues(string(c.Kind), c.Reason).Inc()
	}
	for _, all := range []*prometheus.GaugeVec{unknown, exports, refused, held, written, conflicts, pending, fullest} {
		all.Collect(ch)
	}
}
