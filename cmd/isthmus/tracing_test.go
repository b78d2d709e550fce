package main

import (
	"net"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// TestTraces: each call is a span, under the service name that Linkerd's
// destination controller has; the last ones are sent on the way out.
func TestTraces(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 100)
	collector := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		m := new(emptypb.Empty) // of which all fields are unknown
		if err := stream.RecvMsg(m); err != nil {
			return err
		}
		seen <- string(m.ProtoReflect().GetUnknown())
		return stream.SendMsg(new(emptypb.Empty))
	}))
	done := make(chan error, 1)
	go func() { done <- collector.Serve(l) }()
	p := startReady(t, "--shutdown-delay=1ms", "--drain=1ms", "--trace-collector="+l.Addr().String())
	if code, out, err := call("get", "web.shop.svc.cluster.local", "--addr", p.addr, "--once"); code != 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, err)
	}
	p.signals <- syscall.SIGTERM
	if c := <-p.code; c != 0 {
		t.Errorf("exit code %d", c)
	}
	collector.Stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	close(seen)
	spans := ""
	for text := range seen {
		spans += text
	}
	if !strings.Contains(spans, "linkerd-destination") || !strings.Contains(spans, "io.linkerd.proxy.destination.Destination/Get") {
		t.Errorf("spans %q", spans)
	}
}

// TestNoTraces: without a collector, calls pass no code of OpenTelemetry.
func TestNoTraces(t *testing.T) {
	if o := newTracing("", zap.NewNop()).options(); o != nil {
		t.Errorf("%d options of the gRPC server", len(o))
	}
}
