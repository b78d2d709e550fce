package grpcapi

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// nothing is a stream whose messages are empty. If broken is set, its methods return that error.
type nothing struct {
	grpc.ServerStream
	broken error
}

func (s *nothing) SendMsg(any) error { return s.broken }

func (s *nothing) RecvMsg(any) error { return s.broken }

func (s *nothing) Context() context.Context {
	return grpc.NewContextWithServerTransportStream(context.Background(), &deafTransport{})
}

// deafTransport is a transport stream that ignores its status.
type deafTransport struct{ grpc.ServerTransportStream }

func (*deafTransport) WriteStatus(*status.Status) error { return nil }

func TestCalls(t *testing.T) {
	c := newCallMetrics(nil, time.Minute)
	c.prepare(map[string]grpc.ServiceInfo{"pkg.Service": {Methods: []grpc.MethodInfo{
		{Name: "Watch", IsServerStream: true},
		{Name: "Check"},
		{Name: "Talk", IsServerStream: true, IsClientStream: true},
		{Name: "Tell", IsClientStream: true},
	}}})
	for _, x := range []struct {
		err  error
		code codes.Code
	}{
		{nil, codes.OK},
		{status.Error(codes.NotFound, "none"), codes.NotFound},
		{context.Canceled, codes.Canceled},
		{errors.New("odd"), codes.Unknown},
		{status.Error(99, "odd"), codes.Unknown},
	} {
		for _, m := range []struct{ name, kind string }{
			{"Watch", "server_stream"},
			{"Check", "unary"},
			{"Talk", "bidi_stream"},
			{"Tell", "client_stream"},
		} {
			labels := []string{m.kind, "pkg.Service", m.name}
			before := [...]float64{
				value(c.started.WithLabelValues(labels...)),
				value(c.received.WithLabelValues(labels...)),
				value(c.sent.WithLabelValues(labels...)),
				ended(c, labels, x.code),
			}
			under := &nothing{}
			err := c.interceptor()(
				nil,
				under,
				&grpc.StreamServerInfo{FullMethod: "/pkg.Service/" + m.name},
				func(_ any, ss grpc.ServerStream) error {
					_, _, _ = ss.RecvMsg(nil), ss.SendMsg(nil), ss.SendMsg(nil)
					under.broken = errors.New("broken")
					_, _ = ss.RecvMsg(nil), ss.SendMsg(nil) // messages are not counted
					return x.err
				},
			)
			after := [...]float64{
				value(c.started.WithLabelValues(labels...)),
				value(c.received.WithLabelValues(labels...)),
				value(c.sent.WithLabelValues(labels...)),
				ended(c, labels, x.code),
			}
			for i, more := range [...]float64{1, 1, 2, 1} {
				if after[i] != before[i]+more || !errors.Is(err, x.err) {
					t.Errorf("%s with %v: %v before, %v after, returns %v", m.name, x.err, before, after, err)
				}
			}
		}
	}
	// Series of calls that have not happened exist with the value zero.
	if n := series(c.handled); n != 4*17 {
		t.Errorf("%d series of ended calls", n)
	}
}

func ended(c *callMetrics, labels []string, code codes.Code) float64 {
	return value(c.handled.With(prometheus.Labels{
		"grpc_type":    labels[0],
		"grpc_service": labels[1],
		"grpc_method":  labels[2],
		"grpc_code":    code.String(),
	}))
}
