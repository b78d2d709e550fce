package grpcapi

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/federation"
)

// metrics are the series that are updated as events happen. The series about open
// streams are made when scraped: see scraped.
type metrics struct {
	calls                   *callMetrics
	getOverflow             *overflows // by service
	profileOverflow         *overflows // by service and port
	endpointProfileOverflow prometheus.Counter
	stalled                 prometheus.Counter     // the sum of these three
	closed                  *prometheus.CounterVec // by reason
	first                   prometheus.Histogram
	late                    prometheus.Counter
	profileUpdates          profileUpdates
	workloadUpdates         prometheus.Counter
	propagation             *propagation
}

func newMetrics(s *Server, r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		calls: newCallMetrics(s.panicked, s.opts.Request),
		getOverflow: newOverflows(s.table, s.openGets, prometheus.NewDesc("endpoint_updates_queue_overflow",
			"Get streams that ended because their proxy did not take an update in time.", []string{"service"}, nil)),
		profileOverflow: newOverflows(s.table, s.openProfiles, prometheus.NewDesc("profile_updates_queue_overflow",
			"GetProfile streams of services that ended because their proxy did not take an update in time.", []string{"fqn", "port"}, nil)),
		endpointProfileOverflow: counter("endpoint_profile_updates_queue_overflow",
			"GetProfile streams of endpoints that ended because their proxy did not take an update in time."),
		stalled: counter("isthmus_streams_stalled_total", "Streams that ended because their proxy did not take an update in time."),
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "isthmus_connections_closed_total", Help: "Connections that were closed because their client takes no answers.",
		}, []string{"reason"}),
		first: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "isthmus_first_frame_seconds",
			Help:    "How long the first messages of Get streams waited for clusters.",
			Buckets: []float64{.001, .005, .01, .05, .1, .25, .5, 1, 1.5, 2, 3},
		}),
		late:            counter("isthmus_first_frame_timeouts_total", "Get streams that did not begin with all clusters, since one of them took too long."),
		workloadUpdates: counter("workload_updates", "How often the profiles have changed that GetProfile streams see of an endpoint, or of an address whose owner is not known."),
		propagation:     &propagation{table: s.table, byCluster: make(map[federation.ClusterName]prometheus.Histogram)},
	}
	for _, reason := range []string{closedStalled, closedReflection} {
		m.closed.WithLabelValues(reason)
	}
	own := []prometheus.Collector{
		scraped(m.getOverflow.collect),
		scraped(m.profileOverflow.collect),
		m.endpointProfileOverflow,
		m.stalled,
		m.closed,
		m.first,
		m.late,
		m.workloadUpdates,
		m.propagation,
		s.refused,
		scraped(s.collectStreams),
		scraped(s.collectEndpoints),
		scraped(s.collectProfiles),
	}
	for _, c := range append(m.calls.collectors(), own...) {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of the Destination server: %w", err)
		}
	}
	return m, nil
}
