package cluster

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// For each resource, resourceNames contains the prefixes of two metric names. The cache field is
// the part before "_cache_size", and the lag field is the part before "_informer_lag_seconds". If a
// resource has no lag metric, its lag field is empty. The metric names match those of Linkerd's
// destination controller.
var resourceNames = []struct{ resource, cache, lag string }{
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

// Metrics contains the metrics that clusters update while they run. The local cluster and all
// linked clusters share one Metrics value. A nil *Metrics records nothing.
type Metrics struct {
	requests *kube.Requests
	lags     map[string]prometheus.Observer // by resource
}

// NewMetrics creates and registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{requests: kube.NewRequests(), lags: make(map[string]prometheus.Observer)}
	all := []prometheus.Collector{m.requests}
	for _, k := range resourceNames {
		if k.lag == "" {
			continue
		}
		h := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: k.lag + "_informer_lag_seconds",
			Help: fmt.Sprintf("Time between an update to %s in any cluster and its arrival at Isthmus. "+
				"API servers store update times in whole seconds.", k.resource),
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

func (m *Metrics) lag(resource string) prometheus.Observer {
	if m == nil {
		return nil
	}
	return m.lags[resource]
}

// Requests returns the metrics of requests to API servers. The receiver may be nil.
func (m *Metrics) Requests() *kube.Requests {
	if m == nil {
		return nil
	}
	return m.requests
}

// Series creates the following metrics on each scrape.
var (
	stateDesc = desc("isthmus_cluster_state",
		"1 for the current state of a cluster: rejected, pending, unreachable, ready or stale.", "state")
	staleDesc = desc("isthmus_cluster_stale_seconds",
		"Seconds since a cluster became stale or exceeded its memory cap; 0 if neither is the case.")
	standingDesc = desc("isthmus_cluster_standing",
		"1 for the current standing of a cluster's endpoints, which is in-service, last-resort or withdrawn.",
		"standing")
	memoryDesc = desc("isthmus_cluster_memory_bytes",
		"Estimated memory that counts against the memory cap of a linked cluster. "+
			"While Isthmus lists objects, the value is the memory used by the cached objects "+
			"or by the listed objects, whichever is larger.")
	maxMemoryDesc = desc("isthmus_cluster_memory_limit_bytes",
		"Memory cap of a linked cluster in bytes, as set by --cluster-memory.")
	refusedDesc = desc("isthmus_objects_refused",
		"Number of objects whose current version exceeds a limit and is not used. The previous version stays in use.",
		"resource")
	unreadDesc = desc("isthmus_cluster_kind_unread",
		"1 if Isthmus serves a cluster but has never listed the kind of object that the label \"resource\" names. "+
			"Otherwise, the series is absent.",
		"resource", "reason")
	cacheDescs = newCacheDescs()
)

func newCacheDescs() map[string]*prometheus.Desc {
	all := make(map[string]*prometheus.Desc)
	for _, k := range resourceNames {
		all[k.resource] = desc(k.cache+"_cache_size", fmt.Sprintf("Number of cached %s of a cluster.", k.resource))
	}
	return all
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"cluster"}, labels...), nil)
}

func gauge(d *prometheus.Desc, value float64, name federation.ClusterName, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{name.String()}, labels...)...)
}

// StateSeries returns only the state metric of a cluster, whereas Series returns all metrics.
func StateSeries(name federation.ClusterName, s State) prometheus.Metric {
	return gauge(stateDesc, 1, name, string(s))
}

// StandingSeries returns the metric for the standing of a cluster. The caller must pass a standing
// that takes both the cordon and the condition of the cluster into account.
func StandingSeries(name federation.ClusterName, s federation.Standing) prometheus.Metric {
	return gauge(standingDesc, 1, name, s.String())
}

// Series returns the current health metrics of a linked or local cluster.
func Series(name federation.ClusterName, s State, h Health) []prometheus.Metric {
	seconds := 0.0
	if (s == Stale || s == Unreachable) && !h.StaleSince.IsZero() {
		seconds = time.Since(h.StaleSince).Seconds()
	}
	list := []prometheus.Metric{StateSeries(name, s), gauge(staleDesc, seconds, name)}
	if m := h.Memory; m.Limit > 0 {
		list = append(list, gauge(memoryDesc, float64(m.Used), name), gauge(maxMemoryDesc, float64(m.Limit), name))
	}
	for _, r := range (&Status{State: s, Resources: h.Resources}).NeverRead() {
		list = append(list, gauge(unreadDesc, 1, name, r.Resource, string(r.Failure)))
	}
	sizes := make(map[string]int)
	if len(h.Resources) > 0 { // a cluster reads only one of the two resources; the other is reported as 0
		sizes["endpoints"], sizes["endpointslices"] = 0, 0
	}
	for _, r := range h.Resources {
		sizes[r.Resource] = r.Objects
		list = append(list, troubles(name, r)...)
	}
	for resource, n := range sizes {
		if d := cacheDescs[resource]; d != nil {
			list = append(list, gauge(d, float64(n), name))
		}
	}
	return list
}

// troubles returns the metrics for problems with a resource. Zero values are omitted for linked
// clusters, so that the number of series does not grow with the number of links.
func troubles(name federation.ClusterName, r adminapi.Resource) (list []prometheus.Metric) {
	if name == federation.Local || r.Refused > 0 {
		list = append(list, gauge(refusedDesc, float64(r.Refused), name, r.Resource))
	}
	return list
}
