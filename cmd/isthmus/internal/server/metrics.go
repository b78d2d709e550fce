package server

import (
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/federation"
)

// newRegistry returns a registry with metrics of the Go runtime, the process and the build.
func newRegistry(version string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewBuildInfoCollector(),
		newBuildMetric(version),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// newBuildMetric returns a metric whose labels describe the build, like the build_info metrics of
// Prometheus's own programs. Prometheus's version library is not used, because its templates would
// make the binary a third larger.
func newBuildMetric(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "isthmus_build_info",
		Help: "Always 1. The labels describe the build of Isthmus.",
		ConstLabels: prometheus.Labels{
			"version":   version,
			"revision":  cli.Revision(),
			"goversion": runtime.Version(),
		},
	}, func() float64 { return 1 })
}

// scraped is a prometheus.Collector that computes its series on each scrape.
type scraped func(chan<- prometheus.Metric)

// Describe implements prometheus.Collector. Describe sends no descriptors, so the registry checks
// the metrics only when it collects them.
func (scraped) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s scraped) Collect(ch chan<- prometheus.Metric) { s(ch) }

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// federationMetrics collects metrics about the members of services and the endpoints that clusters
// offer. If byService is true, federationMetrics also collects series for each service. In metrics
// without a service label, all unlinked clusters share one series with an empty cluster label, so
// that the number of series is limited.
func federationMetrics(t *federation.Table, byService bool) scraped {
	return func(ch chan<- prometheus.Metric) {
		linked := t.Linked()
		collectMembers(ch, t, linked, byService)
		collectWatched(ch, t, linked, byService)
	}
}

type linkStates = map[federation.ClusterName]federation.LinkState

// clusterGauges returns a GaugeVec with a cluster label, and initializes the gauge of each linked
// cluster to 0.
func clusterGauges(linked linkStates, name, help string) *prometheus.GaugeVec {
	all := gauges(name, help, "cluster")
	for c := range linked {
		all.WithLabelValues(c.String())
	}
	return all
}

func collectMembers(ch chan<- prometheus.Metric, t *federation.Table, linked linkStates, byService bool) {
	members := clusterGauges(linked, "isthmus_members",
		"Members of federated and mirrored services, by cluster. "+
			"The cluster label is empty if the cluster is not linked.")
	unavailable := clusterGauges(linked, "isthmus_member_unavailable",
		"Members that do not contribute endpoints to their federated or mirrored services. "+
			"See /debug/clusters for the reasons.")
	serving := gauges("isthmus_service_member",
		"1 if the member contributes endpoints to its federated or mirrored service, 0 otherwise.",
		"namespace", "service", "cluster", "member")
	for id, d := range t.Definitions() {
		for _, m := range d.Members {
			if !d.Federated && m.Cluster == federation.Local {
				continue // a plain Service is its only member
			}
			members.WithLabelValues(ifLinked(m.Cluster, linked)).Inc()
			if byService {
				serving.WithLabelValues(id.Namespace, id.Name, m.Cluster.String(), m.Service.String()).Set(1)
			}
		}
	}
	for _, u := range t.Unserved() {
		unavailable.WithLabelValues(ifLinked(u.Member.Cluster, linked)).Inc()
		if byService {
			serving.WithLabelValues(
				u.Service.Namespace, u.Service.Name, u.Member.Cluster.String(), u.Member.Service.String(),
			).Set(0)
		}
	}
	members.Collect(ch)
	unavailable.Collect(ch)
	serving.Collect(ch)
}

func ifLinked(c federation.ClusterName, linked linkStates) string {
	if linked[c] == federation.Unlinked {
		return ""
	}
	return c.String()
}

func collectWatched(ch chan<- prometheus.Metric, t *federation.Table, linked linkStates, byService bool) {
	offered := clusterGauges(linked, "isthmus_endpoints_offered",
		"Endpoints that clusters offer for watched service ports.")
	yielded := gauges("isthmus_address_conflicts",
		"Offered addresses that Isthmus does not send, because another member offers the same address.", "cluster")
	yielded.WithLabelValues(federation.Local.String())
	refused := gauges("isthmus_endpoints_refused",
		"Endpoints that linked clusters offer and Isthmus rejects, by reason. "+
			"The rejected address is outside the cluster's address ranges, or belongs to the local cluster. "+
			"See /debug/clusters for examples.", "cluster", "reason")
	byMember := gauges("isthmus_service_endpoints_offered",
		"Endpoints that a cluster offers for a watched service port.",
		"namespace", "service", "port", "cluster", "member")
	for w := range t.EachWatched() {
		port := w.Port
		if w.Undeclared {
			port = 0 // all undeclared ports of a service share one series
		}
		for _, m := range w.Members {
			if m.Status.Link == federation.Unlinked {
				continue
			}
			cluster := m.Member.Cluster.String()
			offered.WithLabelValues(cluster).Add(float64(m.Offered))
			if m.Yielded > 0 {
				yielded.WithLabelValues(cluster).Add(float64(m.Yielded))
			}
			if m.Refused.Outside > 0 {
				refused.WithLabelValues(cluster, "ranges").Add(float64(m.Refused.Outside))
			}
			if m.Refused.Owned > 0 {
				refused.WithLabelValues(cluster, "local").Add(float64(m.Refused.Owned))
			}
			if byService {
				byMember.WithLabelValues(
					w.Service.Namespace, w.Service.Name, strconv.Itoa(int(port)), cluster, m.Member.Service.String(),
				).Set(float64(m.Offered))
			}
		}
	}
	offered.Collect(ch)
	yielded.Collect(ch)
	refused.Collect(ch)
	byMember.Collect(ch)
}

var tierChanges = prometheus.NewDesc("isthmus_tier_changes_total",
	"Number of times that clients in a zone switched to more tiers (spill) or to fewer tiers (return). "+
		"Only watched services are counted.",
	[]string{"namespace", "service", "direction"}, nil)

// tierMetrics collects the tiers in use for watched services with a preference. The zone label
// names a zone of the local cluster, and is empty if the zone of the clients is unknown.
func tierMetrics(t *federation.Table) scraped {
	return func(ch chan<- prometheus.Metric) {
		inUse := gauges("isthmus_tier_in_use",
			"Number of tiers, in addition to the first, that clients in a zone use for a service with a preference. "+
				"If a service has several ports, the value is for the port with the most tiers in use. "+
				"See /debug/services for the reasons.",
			"namespace", "service", "zone")
		for _, s := range t.Steered(false) {
			if len(s.Preference.Tiers) == 0 {
				continue // listed only because of a cluster of last resort
			}
			id := s.Service
			for zone, n := range s.InUse {
				inUse.WithLabelValues(id.Namespace, id.Name, zone).Set(float64(n - 1))
			}
			changes := func(n float64, direction string) {
				ch <- prometheus.MustNewConstMetric(tierChanges, prometheus.CounterValue, n,
					id.Namespace, id.Name, direction)
			}
			changes(float64(s.Spills), "spill")
			changes(float64(s.FailBacks), "return")
		}
		inUse.Collect(ch)
	}
}
