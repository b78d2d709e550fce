package grpcapi

import "github.com/prometheus/client_golang/prometheus"

// collector makes the series about open streams and views when it is scraped, from
// what streams share. So they cost streams nothing, and the series of a service end
// with its streams.
type collector struct {
	server *Server

	subscribers, updates, pods, exists     *prometheus.Desc // of a member of a service
	profileSubscribers, profileUpdates     *prometheus.Desc
	serviceSubscribers                     *prometheus.Desc
	workloadSubscribers                    *prometheus.Desc
	calls                                  *prometheus.Desc
	streams, views, evicted, endpointsSent *prometheus.Desc
}

func newCollector(s *Server) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	member := []string{"cluster", "namespace", "service", "port", "hostname", "nodename"}
	profile := []string{"namespace", "profile"}
	return &collector{
		server:              s,
		subscribers:         desc("endpoints_subscribers", "Get streams that a Service's endpoints go to.", member...),
		updates:             desc("endpoints_updates", "How often a Service's endpoints have changed while there were Get streams.", member...),
		pods:                desc("endpoints_pods", "Endpoints of a Service that a Get stream is sent; the maximum, if that depends on the client's zone.", member...),
		exists:              desc("endpoints_exists", "1 if a Service with Get streams exists in its cluster.", member...),
		profileSubscribers:  desc("profile_subscribers", "GetProfile streams that a ServiceProfile of this name applies to, if it exists.", profile...),
		profileUpdates:      desc("profile_updates", "How often the profile that such streams see has changed.", profile...),
		serviceSubscribers:  desc("service_subscribers", "GetProfile streams of a Service.", "namespace", "name"),
		workloadSubscribers: desc("workload_subscribers", "GetProfile streams of an endpoint, or of an address whose owner is not known."),
		calls:               desc("isthmus_calls", "Open calls of all methods, also those whose request has not come."),
		streams:             desc("isthmus_streams", "Open Get and GetProfile streams."),
		views: desc("isthmus_views", "Views, which streams share: open while a stream uses it, warm while it is kept for the next one.",
			"grpc_method", "state"),
		evicted:       desc("isthmus_views_evicted_total", "Warm views that were closed to make room.", "grpc_method"),
		endpointsSent: desc("isthmus_endpoints_sent", "Endpoints that open Get streams should have by now, counted once for every stream.", "cluster"),
	}
}

// Describe implements prometheus.Collector. It describes nothing: that is checked when metrics are read.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	to := results{ch}
	to.gauge(c.calls, int(c.server.metrics.calls.open.Load()))
	to.gauge(c.streams, c.server.Streams())
	for method, views := range map[string]interface {
		count() (all, idle int)
		evictions() uint64
	}{"Get": c.server.getViews, "GetProfile": c.server.profileViews} {
		all, idle := views.count()
		to.gauge(c.views, all-idle, method, "open")
		to.gauge(c.views, idle, method, "warm")
		to.counter(c.evicted, views.evictions(), method)
	}
	c.collectEndpoints(to)
	c.collectProfiles(to)
}

// results sends series to a scrape.
type results struct{ ch chan<- prometheus.Metric }

func (r results) gauge(d *prometheus.Desc, n int, labels ...string) {
	r.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
}

func (r results) counter(d *prometheus.Desc, n uint64, labels ...string) {
	r.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}
