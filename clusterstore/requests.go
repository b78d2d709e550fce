package clusterstore

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
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

// requests are the series about what is asked of API servers.
type requests struct {
	total, errors        *prometheus.CounterVec
	latency              *prometheus.HistogramVec
	inFlight, qps, burst *prometheus.GaugeVec
}

func newRequests() *requests {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"client", "cluster"})
	}
	return &requests{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "http_client_requests_total",
			Help: "Requests that API servers have answered. A watch counts when it begins.",
		}, []string{"client", "cluster", "code", "method"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "http_client_errors_total",
			Help: "Requests to API servers that had no answer.",
		}, []string{"client", "cluster", "method"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "http_client_request_latency_seconds",
			Help:    "How long API servers took to begin their answer.",
			Buckets: slices.Concat(prometheus.LinearBuckets(.01, .01, 5), prometheus.LinearBuckets(.1, .1, 5), prometheus.LinearBuckets(1, 1, 5), prometheus.LinearBuckets(10, 10, 5)),
		}, []string{"client", "cluster", "code", "method"}),
		inFlight: gauge("http_client_in_flight_requests", "Requests to API servers whose answer has not begun."),
		qps:      gauge("http_client_qps", "Client-side limit of requests a second; -1: none."),
		burst:    gauge("http_client_burst", "Client-side limit of requests in a burst; -1: none."),
	}
}

func (m *requests) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.total, m.errors, m.latency, m.inFlight, m.qps, m.burst}
}

// forget ends a cluster's series.
func (m *requests) forget(name federation.ClusterName) {
	of := prometheus.Labels{"cluster": name.String()}
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.total, m.errors, m.latency, m.inFlight, m.qps, m.burst} {
		v.DeletePartialMatch(of)
	}
}

// counted is a cluster's transport that counts.
type counted struct {
	next    http.RoundTripper
	metrics *requests
	cluster string
}

// count returns a transport that counts what goes through it.
func (m *requests) count(name federation.ClusterName, next http.RoundTripper) http.RoundTripper {
	for _, client := range []string{clientKubernetes, clientLinkerd} {
		m.qps.WithLabelValues(client, name.String()).Set(-1)
		m.burst.WithLabelValues(client, name.String()).Set(-1)
		m.inFlight.WithLabelValues(client, name.String())
	}
	return &counted{next, m, name.String()}
}

func (c *counted) RoundTrip(request *http.Request) (*http.Response, error) {
	client, method, start := clientOf(request.URL.Path), strings.ToLower(request.Method), time.Now()
	inFlight := c.metrics.inFlight.WithLabelValues(client, c.cluster)
	inFlight.Inc()
	response, err := c.next.RoundTrip(request)
	inFlight.Dec()
	if err != nil {
		c.metrics.errors.WithLabelValues(client, c.cluster, method).Inc()
		return nil, err
	}
	code := codeOf(response.StatusCode)
	c.metrics.total.WithLabelValues(client, c.cluster, code, method).Inc()
	c.metrics.latency.WithLabelValues(client, c.cluster, code, method).Observe(time.Since(start).Seconds())
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
