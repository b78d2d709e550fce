package grpcapi

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"isthmus/federation"
)

// scraped is a prometheus.Collector of series about open streams and views, which are made when they are
// scraped, from what streams share. So they cost streams nothing, and the series of a service end with its
// streams.
type scraped func(chan<- prometheus.Metric)

// Describe implements prometheus.Collector. It describes nothing: that is checked when metrics are read.
func (scraped) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c scraped) Collect(ch chan<- prometheus.Metric) { c(ch) }

// gauges returns the series of one name for a scrape, none as yet.
func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

var evictedDesc = prometheus.NewDesc("isthmus_views_evicted_total", "Warm views that were closed to make room.", []string{"grpc_method"}, nil)

func (s *Server) collectStreams(ch chan<- prometheus.Metric) {
	calls := gauges("isthmus_calls", "Open calls of all methods, also those whose request has not come.")
	streams := gauges("isthmus_streams", "Open Get and GetProfile streams.")
	views := gauges("isthmus_views", "Views, which streams share: open while a stream uses it, warm while it is kept for the next one.", "grpc_method", "state")
	calls.WithLabelValues().Set(float64(s.calls.inUse()))
	streams.WithLabelValues().Set(float64(s.Streams()))
	for method, of := range map[string]interface {
		count() (all, idle int, evicted uint64)
	}{"Get": s.getViews, "GetProfile": s.profileViews} {
		all, idle, evicted := of.count()
		views.WithLabelValues(method, "open").Set(float64(all - idle))
		views.WithLabelValues(method, "warm").Set(float64(idle))
		ch <- prometheus.MustNewConstMetric(evictedDesc, prometheus.CounterValue, float64(evicted), method)
	}
	calls.Collect(ch)
	streams.Collect(ch)
	views.Collect(ch)
}

// memberLabels are those of series about one member of a service, as one kind of client sees it.
var memberLabels = []string{"cluster", "namespace", "service", "port", "hostname", "nodename"}

var (
	subscribersDesc = prometheus.NewDesc("endpoints_subscribers",
		"Get streams that a Service's endpoints go to.", memberLabels, nil)
	updatesDesc = prometheus.NewDesc("endpoints_updates",
		"How often a Service's endpoints have changed while there were Get streams.", memberLabels, nil)
	podsDesc = prometheus.NewDesc("endpoints_pods",
		"Endpoints of a Service that a Get stream is sent; "+
			"the largest number, if that depends on the client's zone or on node hints.", memberLabels, nil)
	existsDesc = prometheus.NewDesc("endpoints_exists",
		"1 if a Service with Get streams exists in its cluster.", memberLabels, nil)
)

// memberSeries are the values of memberLabels.
type memberSeries struct {
	member         federation.Member
	port           uint16
	hostname, node string
}

type memberCount struct {
	subscribers, pods int
	updates           uint64 // in all services that have the member
	exists            bool
}

// sendMembers sends the series about members. Unlike series of prometheus.NewConstMetric, they share their
// labels: there are as many as members of services.
func sendMembers(ch chan<- prometheus.Metric, counts map[memberSeries]memberCount) {
	pairs := make(map[[2]string]*dto.LabelPair) // each label once
	pair := func(name, value string) *dto.LabelPair {
		p := pairs[[2]string{name, value}]
		if p == nil {
			p = &dto.LabelPair{Name: &name, Value: &value}
			pairs[[2]string{name, value}] = p
		}
		return p
	}
	for s, m := range counts {
		labels := []*dto.LabelPair{
			pair("cluster", s.member.Cluster.String()), pair("hostname", s.hostname), pair("namespace", s.member.Service.Namespace),
			pair("nodename", s.node), pair("port", strconv.Itoa(int(s.port))), pair("service", s.member.Service.Name),
		}
		exists := 0.0
		if m.exists {
			exists = 1
		}
		ch <- &constSeries{subscribersDesc, labels, float64(m.subscribers), false}
		ch <- &constSeries{updatesDesc, labels, float64(m.updates), true}
		ch <- &constSeries{podsDesc, labels, float64(m.pods), false}
		ch <- &constSeries{existsDesc, labels, exists, false}
	}
}

// constSeries is one series of a scrape.
type constSeries struct {
	desc    *prometheus.Desc
	labels  []*dto.LabelPair // sorted by name; read only
	value   float64
	counter bool // or else a gauge
}

// Desc implements prometheus.Metric.
func (s *constSeries) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s *constSeries) Write(to *dto.Metric) error {
	if to.Label = s.labels; s.counter {
		to.Counter = &dto.Counter{Value: &s.value}
	} else {
		to.Gauge = &dto.Gauge{Value: &s.value}
	}
	return nil
}
