package grpcapi

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var statusNoRequest = status.New(codes.DeadlineExceeded, "the request did not arrive in time")

// callMetrics counts calls and their messages, and converts panics into errors. The metrics have
// the same names as in go-grpc-prometheus. The counters of each method are cached, because looking
// them up for each message would account for a tenth of the time that an update takes.
type callMetrics struct {
	panicked       func(method string, reason any) error // fixed
	requestTimeout time.Duration                         // Options.Request; fixed

	started  *prometheus.CounterVec
	handled  *prometheus.CounterVec
	received *prometheus.CounterVec
	sent     *prometheus.CounterVec
	seconds  *prometheus.HistogramVec

	methods map[string]*methodMetrics // by full name; only prepare modifies the map
}

type methodMetrics struct {
	name     string
	started  prometheus.Counter
	received prometheus.Counter
	sent     prometheus.Counter
	handled  [codes.Unauthenticated + 1]prometheus.Counter // by code
	seconds  prometheus.Observer
}

func newCallMetrics(panicked func(method string, reason any) error, requestTimeout time.Duration) *callMetrics {
	labels := []string{"grpc_type", "grpc_service", "grpc_method"}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &callMetrics{
		panicked:       panicked,
		requestTimeout: requestTimeout,

		started: counter("grpc_server_started_total", "Number of started calls.", labels...),
		handled: counter(
			"grpc_server_handled_total",
			"Number of ended calls, by code.",
			append(labels, "grpc_code")...),
		received: counter("grpc_server_msg_received_total", "Number of messages received in calls.", labels...),
		sent:     counter("grpc_server_msg_sent_total", "Number of messages sent in calls.", labels...),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "grpc_server_handling_seconds",
			Help:    "Duration of calls.",
			Buckets: []float64{.1, 1, 300, 3600},
		}, labels),
		methods: make(map[string]*methodMetrics),
	}
}

func (c *callMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.started, c.handled, c.received, c.sent, c.seconds}
}

// prepare creates the metric series for all methods, and must be called before the server begins to
// serve.
func (c *callMetrics) prepare(services map[string]grpc.ServiceInfo) {
	for service, info := range services {
		for _, m := range info.Methods {
			labels := []string{callType(m), service, m.Name}
			to := &methodMetrics{
				name:     "/" + service + "/" + m.Name,
				started:  c.started.WithLabelValues(labels...),
				received: c.received.WithLabelValues(labels...),
				sent:     c.sent.WithLabelValues(labels...),
				seconds:  c.seconds.WithLabelValues(labels...),
			}
			for code := range to.handled {
				to.handled[code] = c.handled.WithLabelValues(append(labels, codes.Code(code).String())...)
			}
			c.methods[to.name] = to
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

// interceptor returns the interceptor that counts calls to the methods that the server implements.
func (c *callMetrics) interceptor() grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		call := c.begin(ss, info.FullMethod)
		defer call.end(&err)
		if err = refusal(ss.Context()); err != nil {
			return err
		}
		return next(srv, call)
	}
}

type countedCall struct {
	grpc.ServerStream
	metrics *callMetrics
	method  *methodMetrics
	began   time.Time
}

func (c *callMetrics) begin(ss grpc.ServerStream, name string) *countedCall {
	m := c.methods[name]
	m.started.Inc()
	return &countedCall{ss, c, m, time.Now()}
}

// The end method counts the ended call in the metrics. If the call has panicked, its result is
// replaced with an error. The method must be deferred directly, because it calls recover.
func (c *countedCall) end(err *error) {
	if r := recover(); r != nil {
		*err = c.metrics.panicked(c.method.name, r)
	}
	s, ok := status.FromError(*err)
	if !ok {
		s = status.FromContextError(*err)
	}
	code := s.Code()
	if int(code) >= len(c.method.handled) {
		code = codes.Unknown
	}
	c.method.handled[code].Inc()
	c.method.seconds.Observe(time.Since(c.began).Seconds())
}

func (c *countedCall) SendMsg(m any) error {
	err := c.ServerStream.SendMsg(m)
	if err == nil {
		c.method.sent.Inc()
	}
	return err
}

// RecvMsg receives a message from the client. If the message does not arrive within
// Options.Request, the call ends with DeadlineExceeded. Without a time limit, clients could keep
// calls open forever by never sending a request.
func (c *countedCall) RecvMsg(m any) error {
	transport, err := transportOf(c.Context())
	if err != nil {
		return err
	}
	due := time.AfterFunc(c.metrics.requestTimeout, func() { _ = transport.WriteStatus(statusNoRequest) })
	err = c.ServerStream.RecvMsg(m)
	if !due.Stop() {
		return statusNoRequest.Err()
	}
	if err == nil {
		c.method.received.Inc()
	}
	return err
}

func transportOf(ctx context.Context) (statusWriter, error) {
	transport, ok := grpc.ServerTransportStreamFromContext(ctx).(statusWriter)
	if !ok {
		return nil, status.Error(codes.Internal, "this version of the gRPC library does not support ending streams")
	}
	return transport, nil
}

// streamRegistrar registers each unary method as a stream with one request and one response.
// Clients cannot tell the difference. For a unary method, gRPC waits for the request before calling
// an interceptor. For a stream, the interceptor can refuse the call immediately, or end it if the
// request does not arrive.
type streamRegistrar struct {
	*grpc.Server
	intercept grpc.StreamServerInterceptor // called by streamRegistrar, because gRPC does not
}

// RegisterService implements grpc.ServiceRegistrar.
func (r streamRegistrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	streams := *desc
	streams.Methods = nil
	streams.Streams = slices.Clone(desc.Streams)
	for _, method := range desc.Methods {
		handle := func(srv any, ss grpc.ServerStream) error {
			answer, err := method.Handler(srv, ss.Context(), ss.RecvMsg, nil)
			if err != nil {
				return err
			}
			return ss.SendMsg(answer)
		}
		info := &grpc.StreamServerInfo{FullMethod: "/" + desc.ServiceName + "/" + method.MethodName}
		streams.Streams = append(streams.Streams, grpc.StreamDesc{
			StreamName: method.MethodName,
			Handler:    func(srv any, ss grpc.ServerStream) error { return r.intercept(srv, ss, info, handle) },
		})
	}
	r.Server.RegisterService(&streams, impl)
}
