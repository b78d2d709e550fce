package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// kinds are the resources, with their names in the metrics NAME_cache_size and
// NAME_informer_lag_seconds, which are those of Linkerd's destination controller.
var kinds = []struct{ resource, cache, lag string }{
	{"endpoints", "endpoints", "endpoints"},
	{"endpointslices", "endpointslices", "endpointslices"},
	{"services", "service", "services"},
	{"pods", "pod", "pods"},
	{"servers", "server", "servers"},
	{"externalworkloads", "externalworkload", "externalworkload"},
	{"serviceprofiles", "serviceprofile", "serviceprofiles"},
	{"nodes", "node", ""},
	{"replicasets", "replicaset", ""},
	{"jobs", "job", ""},
	{"namespaces", "namespace", ""},
	{"serviceexports", "serviceexport", ""},
	{"serviceimports", "serviceimport", ""},
}

// Metrics are the metrics that clusters update as they run: one Metrics for all
// clusters, the local one too. nil measures nothing.
type Metrics struct {
	requests *kube.Requests
	lags     map[string]prometheus.Observer // by resource
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{requests: kube.NewRequests(), lags: make(map[string]prometheus.Observer)}
	all := []prometheus.Collector{m.requests}
	for _, k := range kinds {
		if k.lag == "" {
			continue
		}
		h := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    k.lag + "_informer_lag_seconds",
			Help:    fmt.Sprintf("Time from an update of one of the %s to its arrival, in all clusters. API servers store update times in whole seconds.", k.resource),
			Buckets: []float64{.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1000},
		})
		m.lags[k.resource] = h
		all = append(all, h)
	}
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("clusters: metrics: %w", err)
		}
	}
	return m, nil
}

// lag returns the observer of a resource's lag; nil: it is not measured.
func (m *Metrics) lag(resource string) prometheus.Observer {
	if m == nil {
		return nil
	}
	return m.lags[resource]
}

// Requests returns the metrics of requests to clusters' APIs.
func (m *Metrics) Requests() *kube.Requests {
	if m == nil {
		return nil
	}
	return m.requests
}

// series describes the metrics that Series makes when they are scraped.
var series = newDescs()

type descs struct {
	state, stale, standing *prometheus.Desc
	memory, mostMemory     *prometheus.Desc
	refused, drift         *prometheus.Desc
	caches                 []*prometheus.Desc // as kinds
}

func newDescs() descs {
	d := descs{
		state: prometheus.NewDesc("isthmus_cluster_state",
			"1 for the state that a cluster is in: rejected, pending, unreachable, ready or stale.", []string{"cluster", "state"}, nil),
		stale: prometheus.NewDesc("isthmus_cluster_stale_seconds",
			"For how long a cluster that was ready has not been followed, or one that was ready or not has been over its budget; else 0.", []string{"cluster"}, nil),
	}
	d.standing = prometheus.NewDesc("isthmus_cluster_standing",
		"1 for how far a cluster's endpoints are taken out of all services: in-service, last-resort or withdrawn.", []string{"cluster", "standing"}, nil)
	d.memory = prometheus.NewDesc("isthmus_cluster_memory_bytes",
		"What the gateway keeps of a linked cluster, with lists that are being read.", []string{"cluster"}, nil)
	d.mostMemory = prometheus.NewDesc("isthmus_cluster_memory_limit_bytes",
		"What may be kept of a linked cluster: --cluster-memory, or less where many clusters share the memory.", []string{"cluster"}, nil)
	d.refused = prometheus.NewDesc("isthmus_objects_refused",
		"Objects of a cluster that are too large, or beyond a bound, to be read. Earlier versions of them stay.", []string{"cluster", "resource"}, nil)
	d.drift = prometheus.NewDesc("isthmus_drift_total",
		"Objects of which something else was kept than a cluster's API had, and that have been corrected (--relist).", []string{"cluster", "resource"}, nil)
	for _, k := range kinds {
		d.caches = append(d.caches, prometheus.NewDesc(k.cache+"_cache_size",
			fmt.Sprintf("Number of %s kept of a cluster.", k.resource), []string{"cluster"}, nil))
	}
	return d
}

// Describe describes the metrics that [Series] and [StandingSeries] return. Of all collectors that collect
// those of clusters, only one may call it.
func Describe(ch chan<- *prometheus.Desc) {
	ch <- series.state
	ch <- series.stale
	ch <- series.standing
	ch <- series.memory
	ch <- series.mostMemory
	ch <- series.refused
	ch <- series.drift
	for _, c := range series.caches {
		ch <- c
	}
}

// StateSeries returns the metric of a cluster's state alone.
func StateSeries(name federation.ClusterName, s State) prometheus.Metric {
	return prometheus.MustNewConstMetric(series.state, prometheus.GaugeValue, 1, name.String(), string(s))
}

// StandingSeries returns the metric of a cluster's standing: that of its cordon, or of
// being lost if that is greater.
func StandingSeries(name federation.ClusterName, s federation.Standing) prometheus.Metric {
	return prometheus.MustNewConstMetric(series.standing, prometheus.GaugeValue, 1, name.String(), s.String())
}

// Series returns the metrics of a cluster's health, linked or local, now.
func Series(name federation.ClusterName, s State, h Health) []prometheus.Metric {
	seconds := 0.0
	if (s == Stale || s == Unreachable) && !h.StaleSince.IsZero() {
		seconds = time.Since(h.StaleSince).Seconds()
	}
	list := []prometheus.Metric{
		StateSeries(name, s),
		prometheus.MustNewConstMetric(series.stale, prometheus.GaugeValue, seconds, name.String()),
	}
	if m := h.Memory; m.Limit > 0 {
		list = append(list,
			prometheus.MustNewConstMetric(series.memory, prometheus.GaugeValue, float64(m.Used), name.String()),
			prometheus.MustNewConstMetric(series.mostMemory, prometheus.GaugeValue, float64(m.Limit), name.String()))
	}
	for _, r := range h.Resources {
		list = append(list,
			prometheus.MustNewConstMetric(series.refused, prometheus.GaugeValue, float64(r.Refused), name.String(), r.Resource),
			prometheus.MustNewConstMetric(series.drift, prometheus.CounterValue, float64(r.Drifted), name.String(), r.Resource))
	}
	for i, k := range kinds {
		at := slices.IndexFunc(h.Resources, func(r adminapi.Resource) bool { return r.Resource == k.resource })
		size := 0
		switch {
		case at >= 0:
			size = h.Resources[at].Objects
		case len(h.Resources) == 0 || k.resource != "endpoints" && k.resource != "endpointslices":
			continue // not read; but of endpoints and endpointslices, the one that is not read is 0
		}
		list = append(list, prometheus.MustNewConstMetric(series.caches[i], prometheus.GaugeValue, float64(size), name.String()))
	}
	return list
}
