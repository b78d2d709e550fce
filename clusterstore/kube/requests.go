package kube

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore/crd"
	"isthmus/federation"
)

// Which client a request belongs to: that of Kubernetes' own resources, or that
// of Linkerd's. Linkerd's destination controller has two.
const (
	clientKubernetes = "k8s"
	clientLinkerd    = "l5dCrd"
)

// Requests are the series about what is asked of API servers: a cluster's for as
// long as it is known, so that an answer which comes after its end brings none back.
// It is a [prometheus.Collector]; nil counts nothing.
type Requests struct {
	described *clusterRequests // has none

	mu sync.Mutex
	of map[string]*clusterRequests // under mu; by cluster
}

// clusterRequests are those of one cluster.
type clusterRequests struct {
	total, errors        *prometheus.CounterVec
	latency              prometheus.ObserverVec
	inFlight, qps, burst *prometheus.GaugeVec
}

// NewRequests returns one without clusters. It is for the caller to register.
func NewRequests() *Requests {
	return &Requests{described: newClusterRequests(""), of: make(map[string]*clusterRequests)}
}

func newClusterRequests(cluster string) *clusterRequests {
	of := prometheus.Labels{"cluster": cluster}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels, "cluster")).MustCurryWith(of)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"client", "cluster"}).MustCurryWith(of)
	}
	return &clusterRequests{
		total: counter("http_client_requests_total",
			"Requests that API servers have answered. A watch counts when it begins.", "client", "code", "method"),
		errors: counter("http_client_errors_total",
			"Requests to API servers that had no answer.", "client", "method"),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "http_client_request_latency_seconds",
			Help:    "How long API servers took to begin their answer.",
			Buckets: slices.Concat(prometheus.LinearBuckets(.01, .01, 5), prometheus.LinearBuckets(.1, .1, 5), prometheus.LinearBuckets(1, 1, 5), prometheus.LinearBuckets(10, 10, 5)),
		}, []string{"client", "code", "method", "cluster"}).MustCurryWith(of),
		inFlight: gauge("http_client_in_flight_requests", "Requests to API servers whose answer has not begun."),
		qps:      gauge("http_client_qps", "Client-side limit of requests a second; -1: none."),
		burst:    gauge("http_client_burst", "Client-side limit of requests in a burst; -1: none."),
	}
}

func (c *clusterRequests) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.total, c.errors, c.latency, c.inFlight, c.qps, c.burst}
}

// Describe implements prometheus.Collector.
func (m *Requests) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range m.described.collectors() {
		v.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Requests) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	clusters := slices.Collect(maps.Values(m.of))
	m.mu.Unlock()
	for _, c := range clusters {
		for _, v := range c.collectors() {
			v.Collect(ch)
		}
	}
}

// Forget ends a cluster's series, for good: a request that is still under way, of
// a [Client] made before, brings none back.
func (m *Requests) Forget(name federation.ClusterName) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, name.String())
}

// cluster returns a cluster's series, new ones if there are none.
func (m *Requests) cluster(name federation.ClusterName) *clusterRequests {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.of[name.String()]
	if c == nil {
		c = newClusterRequests(name.String())
		for _, client := range []string{clientKubernetes, clientLinkerd} {
			c.qps.WithLabelValues(client).Set(-1)
			c.burst.WithLabelValues(client).Set(-1)
			c.inFlight.WithLabelValues(client)
		}
		m.of[name.String()] = c
	}
	return c
}

// transport returns one that counts a cluster's requests.
func (m *Requests) transport(name federation.ClusterName, next http.RoundTripper) http.RoundTripper {
	if m == nil {
		return next
	}
	return &counted{next, m.cluster(name)}
}

// counted is a cluster's transport that counts.
type counted struct {
	next    http.RoundTripper
	metrics *clusterRequests
}

func (c *counted) RoundTrip(request *http.Request) (*http.Response, error) {
	client, method, start := clientOf(request.URL.Path), strings.ToLower(request.Method), time.Now()
	inFlight := c.metrics.inFlight.WithLabelValues(client)
	inFlight.Inc()
	response, err := c.next.RoundTrip(request)
	inFlight.Dec()
	if err != nil {
		c.metrics.errors.WithLabelValues(client, method).Inc()
		return nil, err
	}
	code := codeOf(response.StatusCode)
	c.metrics.total.WithLabelValues(client, code, method).Inc()
	c.metrics.latency.WithLabelValues(client, code, method).Observe(time.Since(start).Seconds())
	return response, nil
}

// clientOf says whose resources a path is about.
func clientOf(path string) string {
	for _, group := range []string{crd.PolicyVersion.Group, crd.WorkloadVersion.Group, crd.ProfileVersion.Group} {
		if strings.Contains(path, "/apis/"+group+"/") {
			return clientLinkerd
		}
	}
	return clientKubernetes
}

// codeOf is a status code as a label. Servers may answer with any: those without
// a meaning are one.
func codeOf(code int) string {
	if http.StatusText(code) == "" {
		return "unknown"
	}
	return strconv.Itoa(code)
}
