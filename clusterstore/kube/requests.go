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

	"isthmus/clusterstore/decode"
	"isthmus/federation"
)

// These constants are the values of the label "client".
const (
	clientKubernetes = "k8s"
	clientLinkerd    = "l5dCrd"
)

// Requests provides metrics about the requests to the API server of each cluster. The time series
// of a cluster exist from [New] until [Requests.Forget], and later responses do not recreate them.
// Requests is a [prometheus.Collector]. A nil *Requests counts nothing.
type Requests struct {
	mu        sync.Mutex
	byCluster map[string]*clusterRequests // guarded by mu
}

// clusterRequests contains the metrics of one cluster. The metrics for the local cluster have the
// same names, labels and buckets as in Linkerd's destination controller, plus the label "cluster".
// Every replica exports time series for every linked cluster. To limit the total number of time
// series, a replica exports fewer series for each linked cluster than for the local cluster.
type clusterRequests struct {
	linked               bool
	total, errors        *prometheus.CounterVec
	latency              prometheus.ObserverVec // without labels for linked clusters
	inFlight, qps, burst *prometheus.GaugeVec   // qps and burst only exist for the local cluster
}

var linkedLatency = []float64{.01, .05, .25, 1, 5, 20}

// NewRequests returns a Requests that contains no clusters yet. The caller must register the
// Requests with Prometheus.
func NewRequests() *Requests {
	return &Requests{byCluster: make(map[string]*clusterRequests)}
}

func newClusterRequests(name federation.ClusterName) *clusterRequests {
	curried := prometheus.Labels{"cluster": name.String()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: name, Help: help}, append(labels, "cluster"),
		).MustCurryWith(curried)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{
			"client", "cluster",
		}).MustCurryWith(curried)
	}
	latency := func(buckets []float64, labels ...string) prometheus.ObserverVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "http_client_request_latency_seconds",
			Help:    "Time from sending a request until the API server began to respond.",
			Buckets: buckets,
		}, append(labels, "cluster")).MustCurryWith(curried)
	}
	c := &clusterRequests{
		linked: name != federation.Local,
		total: counter("http_client_requests_total",
			"Requests to which an API server responded. A watch is counted when it begins.",
			"client", "code", "method"),
		errors: counter("http_client_errors_total",
			"Requests to which an API server did not respond.", "client", "method"),
		inFlight: gauge("http_client_in_flight_requests", "Requests to API servers without a response yet."),
		qps:      gauge("http_client_qps", "Client-side limit on requests per second, or -1 if there is no limit."),
		burst:    gauge("http_client_burst", "Client-side limit on requests in a burst, or -1 if there is no limit."),
	}
	if c.linked {
		c.latency = latency(linkedLatency)
	} else {
		c.latency = latency(linkerdLatency(), "client", "code", "method")
	}
	for _, client := range []string{clientKubernetes, clientLinkerd} {
		c.inFlight.WithLabelValues(client)
		if !c.linked {
			c.qps.WithLabelValues(client).Set(-1)
			c.burst.WithLabelValues(client).Set(-1)
		}
	}
	return c
}

// linkerdLatency returns the latency buckets that Linkerd's destination controller uses.
func linkerdLatency() []float64 {
	return slices.Concat(
		prometheus.LinearBuckets(.01, .01, 5),
		prometheus.LinearBuckets(.1, .1, 5),
		prometheus.LinearBuckets(1, 1, 5),
		prometheus.LinearBuckets(10, 10, 5),
	)
}

func (c *clusterRequests) answered(client, code, method string, took time.Duration) {
	c.total.WithLabelValues(client, code, method).Inc()
	labels := []string{client, code, method}
	if c.linked {
		labels = nil
	}
	c.latency.WithLabelValues(labels...).Observe(took.Seconds())
}

// Describe implements prometheus.Collector. Describe sends no descriptors, so the registry
// validates the metrics on each collection.
func (m *Requests) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *Requests) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	clusters := slices.Collect(maps.Values(m.byCluster))
	m.mu.Unlock()
	for _, c := range clusters {
		for _, v := range []prometheus.Collector{c.total, c.errors, c.latency, c.inFlight, c.qps, c.burst} {
			v.Collect(ch)
		}
	}
}

// Forget removes the time series of a cluster. Requests in flight do not recreate the series.
func (m *Requests) Forget(name federation.ClusterName) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byCluster, name.String())
}

func (m *Requests) cluster(name federation.ClusterName) *clusterRequests {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.byCluster[name.String()]
	if c == nil {
		c = newClusterRequests(name)
		m.byCluster[name.String()] = c
	}
	return c
}

func (m *Requests) transport(name federation.ClusterName, next http.RoundTripper) http.RoundTripper {
	if m == nil {
		return next
	}
	return &countingTransport{next, m.cluster(name)}
}

type countingTransport struct {
	next    http.RoundTripper
	metrics *clusterRequests
}

func (c *countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	client := clientOf(request.URL.Path)
	method := strings.ToLower(request.Method)
	start := time.Now()
	inFlight := c.metrics.inFlight.WithLabelValues(client)
	inFlight.Inc()
	response, err := c.next.RoundTrip(request)
	inFlight.Dec()
	if err != nil {
		c.metrics.errors.WithLabelValues(client, method).Inc()
		return nil, err
	}
	c.metrics.answered(client, codeOf(response.StatusCode), method, time.Since(start))
	return response, nil
}

func clientOf(path string) string {
	for _, group := range []string{
		decode.PolicyVersion.Group, decode.WorkloadVersion.Group, decode.ProfileVersion.Group,
	} {
		if strings.Contains(path, "/apis/"+group+"/") {
			return clientLinkerd
		}
	}
	return clientKubernetes
}

// codeOf returns the label value for a status code. All undefined status codes share the value
// "unknown", because a hostile server could send many different codes.
func codeOf(code int) string {
	if http.StatusText(code) == "" {
		return "unknown"
	}
	return strconv.Itoa(code)
}
