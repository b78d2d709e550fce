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

// statusNoRequest ends a call whose request has not come within Options.Request.
var statusNoRequest = status.New(codes.DeadlineExceeded, "the request did not come in time")

// callMetrics counts calls and their messages, by the names that go-grpc-prometheus
// gave to such metrics, and makes errors of panics. Each method's counters are
// looked up once: for each message, that took a tenth of all that an update costs.
type callMetrics struct {
	panicked       func(method string, reason any) error // fixed
	requestTimeout time.Duration                         // Options.Request; fixed

	started  *prometheus.CounterVec
	handled  *prometheus.CounterVec
	received *prometheus.CounterVec
	sent     *prometheus.CounterVec
	seconds  *prometheus.HistogramVec

	methods map[string]*methodMetrics // by full name; written by prepare only
}

// methodMetrics is the counters of one method.
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

		started:  counter("grpc_server_started_total", "Calls started.", labels...),
		handled:  counter("grpc_server_handled_total", "Calls ended, by code.", append(labels, "grpc_code")...),
		received: counter("grpc_server_msg_received_total", "Messages received in calls.", labels...),
		sent:     counter("grpc_server_msg_sent_total", "Messages sent in calls.", labels...),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "grpc_server_handling_seconds",
			Help:    "How long calls took.",
			Buckets: []float64{.1, 1, 300, 3600},
		}, labels),
		methods: make(map[string]*methodMetrics),
	}
}

func (c *callMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.started, c.handled, c.received, c.sent, c.seconds}
}

// prepare makes the series of all methods of a server, before it serves.
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

// interceptor returns an interceptor. gRPC calls it for methods of the server only.
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

// countedCall is a call under way. It counts the messages of its stream, if it has one.
type countedCall struct {
	grpc.ServerStream
	metrics *callMetrics
	method  *methodMetrics
	began   time.Time
}

// begin counts a call.
func (c *callMetrics) begin(ss grpc.ServerStream, name string) *countedCall {
	m := c.methods[name]
	m.started.Inc()
	return &countedCall{ss, c, m, time.Now()}
}

// end counts the end of the call, of which err is the result, or becomes it if the
// call has panicked. It has to be deferred itself.
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

// RecvMsg receives a message. If the message does not come within Options.Request, the call ends
// with DeadlineExceeded: a call takes memory as soon as its headers have arrived, and a client
// that sends nothing more would never end it.
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

// transportOf returns the call's transport stream; see statusWriter.
func transportOf(ctx context.Context) (statusWriter, error) {
	transport, ok := grpc.ServerTransportStreamFromContext(ctx).(statusWriter)
	if !ok {
		return nil, status.Error(codes.Internal, "the gateway can't end streams with this version of gRPC")
	}
	return transport, nil
}

// streamRegistrar registers unary methods as streams with one message each way, which clients can't tell apart. gRPC
// receives the request of a unary method before it calls an interceptor. A stream's interceptor can refuse the call at
// once, and end the call if the request does not come.
type streamRegistrar struct {
	*grpc.Server
	intercept grpc.StreamServerInterceptor // gRPC calls none if a stream has one message each way
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
