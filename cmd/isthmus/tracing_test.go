package main

import (
	"context"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	v1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// spans is a collector that keeps what it gets.
type spans struct {
	collector.UnimplementedTraceServiceServer

	mu   sync.Mutex
	seen []*v1.ResourceSpans
}

func (s *spans) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, r.GetResourceSpans()...)
	return &collector.ExportTraceServiceResponse{}, nil
}

// names lists the spans of a service.
func (s *spans) names(service string) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		for _, a := range r.GetResource().GetAttributes() {
			if a.GetKey() != "service.name" || a.GetValue().GetStringValue() != service {
				continue
			}
			for _, scope := range r.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					names = append(names, span.GetName())
				}
			}
		}
	}
	return names
}

// TestTraces: each call is a span, under the service name that Linkerd's
// destination controller has; the last ones are sent on the way out.
func TestTraces(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, server := &spans{}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	p := startProcess(t, startAPI(t), "--shutdown-delay=1ms", "--drain=1ms", "--trace-collector="+l.Addr().String())
	eventually(t, "ready", func() bool { return p.get("/ready") == "ok" })
	if code, out, err := call("get", "web.shop.svc.cluster.local", "--addr", p.addr, "--once"); code != 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, err)
	}
	p.signals <- syscall.SIGTERM
	if c := <-p.code; c != 0 {
		t.Errorf("exit code %d", c)
	}
	if names := s.names("linkerd-destination"); !slices.Contains(names, "io.linkerd.proxy.destination.Destination/Get") {
		t.Errorf("spans %q", names)
	}
}

// TestNoTraces: without a collector, calls pass no code of OpenTelemetry.
func TestNoTraces(t *testing.T) {
	if o := newTracing("", zap.NewNop()).options(); o != nil {
		t.Errorf("%d options of the gRPC server", len(o))
	}
}
