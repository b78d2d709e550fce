package grpcapi

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// calls counts calls and their messages, by the names that go-grpc-prometheus
// gave to such metrics. Each method's counters are looked up once: for each
// message, that took a tenth of all that an update costs.
type calls struct {
	started, handled, received, sent *prometheus.CounterVec
	seconds                          *prometheus.HistogramVec

	methods map[string]*method // by full name; written by prepare only
}

// method is the counters of one method.
type method struct {
	started, received, sent prometheus.Counter
	handled                 [codes.Unauthenticated + 1]prometheus.Counter // by code
	seconds                 prometheus.Observer
}

func newCalls() *calls {
	labels := []string{"grpc_type", "grpc_service", "grpc_method"}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &calls{
		started:  counter("grpc_server_started_total", "Calls started.", labels...),
		handled:  counter("grpc_server_handled_total", "Calls ended, by code.", append(labels, "grpc_code")...),
		received: counter("grpc_server_msg_received_total", "Messages received in calls.", labels...),
		sent:     counter("grpc_server_msg_sent_total", "Messages sent in calls.", labels...),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grpc_server_handling_seconds", Help: "How long calls took.", Buckets: []float64{.1, 1, 300, 3600},
		}, labels),
		methods: make(map[string]*method),
	}
}

func (c *calls) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.started, c.handled, c.received, c.sent, c.seconds}
}

// prepare makes the series of all methods of a server, before it serves.
func (c *calls) prepare(services map[string]grpc.ServiceInfo) {
	for service, info := range services {
		for _, m := range info.Methods {
			labels := []string{callType(m), service, m.Name}
			to := &method{
				started: c.started.WithLabelValues(labels...), received: c.received.WithLabelValues(labels...),
				sent: c.sent.WithLabelValues(labels...), seconds: c.seconds.WithLabelValues(labels...),
			}
			for code := range to.handled {
				to.handled[code] = c.handled.WithLabelValues(append(labels, codes.Code(code).String())...)
			}
			c.methods["/"+service+"/"+m.Name] = to
		}
	}
}

func callType(m grpc.MethodInfo) string {
	switch {
	case m.IsClientStream && m.IsServerStream:
		return "bidi_stream"
	case m.IsClientStream:
		return "client_stream"
	case m.IsServerStream:
		return "server_stream"
	}
	return "unary"
}

// stream is a grpc.StreamServerInterceptor. gRPC calls it for methods of the
// server only.
func (c *calls) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	m, began := c.methods[info.FullMethod], time.Now()
	m.started.Inc()
	err := next(srv, &counted{ss, m})
	m.ended(began, err)
	return err
}

// unary is a grpc.UnaryServerInterceptor.
func (c *calls) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	m, began := c.methods[info.FullMethod], time.Now()
	m.started.Inc()
	m.received.Inc()
	resp, err := next(ctx, req)
	if err == nil {
		m.sent.Inc()
	}
	m.ended(began, err)
	return resp, err
}

func (m *method) ended(began time.Time, err error) {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	code := s.Code()
	if int(code) >= len(m.handled) {
		code = codes.Unknown
	}
	m.handled[code].Inc()
	m.seconds.Observe(time.Since(began).Seconds())
}

// counted counts the messages of a stream.
type counted struct {
	grpc.ServerStream
	method *method
}

func (s *counted) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.method.sent.Inc()
	}
	return err
}

func (s *counted) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.method.received.Inc()
	}
	return err
}
