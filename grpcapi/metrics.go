package grpcapi

import (
	"fmt"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the Destination server's.
type metrics struct {
	grpc             *grpcprom.ServerMetrics
	overflow         *prometheus.CounterVec // by service; a series is there once it counts
	profiles         *prometheus.CounterVec // by service and port, likewise
	endpointProfiles prometheus.Counter
	panics           prometheus.Counter
}

func newMetrics(r prometheus.Registerer, streams func() int) (*metrics, error) {
	m := &metrics{
		grpc: grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(
			grpcprom.WithHistogramBuckets([]float64{.1, 1, 300, 3600}))),
		overflow: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "endpoint_updates_queue_overflow",
			Help: "Get streams that ended because their proxy did not take an update in time.",
		}, []string{"service"}),
		profiles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "profile_updates_queue_overflow",
			Help: "GetProfile streams of services that ended because their proxy did not take an update in time.",
		}, []string{"fqn", "port"}),
		endpointProfiles: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "endpoint_profile_updates_queue_overflow",
			Help: "GetProfile streams of endpoints that ended because their proxy did not take an update in time.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "isthmus_stream_panics_total",
			Help: "Streams and calls that ended because of a panic in the gateway.",
		}),
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "isthmus_streams",
		Help: "Open Get and GetProfile streams.",
	}, func() float64 { return float64(streams()) })
	for _, c := range []prometheus.Collector{m.grpc, m.overflow, m.profiles, m.endpointProfiles, m.panics, open} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of the Destination server: %w", err)
		}
	}
	return m, nil
}
