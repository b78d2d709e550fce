package grpcapi

import (
	"context"
	"net"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"isthmus/grpcapi/internal/wiretest"
)

// connect connects to an address until the end of the test.
func connect(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestCallsWithoutRequest: calls of each kind that never send their request, or not its end, are
// counted from the start, and end with DeadlineExceeded. A call that has sent its request stays.
func TestCallsWithoutRequest(t *testing.T) {
	const each = 50
	methods := []string{
		pb.Destination_Get_FullMethodName, pb.Destination_GetProfile_FullMethodName,
		healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName,
	}
	w := newWorld(t, Options{Pace: -1, Request: 10 * time.Second}) // all are open by then, on a busy machine too
	w.offer("", pods("10.0.0.1:80")...)
	conn := connect(t, listening(t, w.server.GRPC()))
	calls := w.server.metrics.calls
	served, _ := get(t, conn, webAddr, "")
	receive(t, served, "add 10.0.0.1:80")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var silent []grpc.ClientStream
	open := func(method string, count int) {
		for range count {
			s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
			if err != nil {
				t.Fatal(err)
			}
			silent = append(silent, s)
		}
	}
	open(methods[0], each)
	if err := silent[0].SendMsg(&pb.GetDestination{Path: webAddr}); err != nil { // without the end of the stream
		t.Fatal(err)
	}
	for _, method := range methods[1:] {
		open(method, each)
	}
	open(reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName, maxReflections)
	wiretest.Until(t, "all calls are counted", func() bool { return calls.open.Load() == int64(1+len(methods)*each+maxReflections) })
	for i, s := range silent {
		if err := s.RecvMsg(&healthpb.HealthCheckResponse{}); status.Code(err) != codes.DeadlineExceeded || ctx.Err() != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	wiretest.Until(t, "only the call that is served is left", func() bool { return calls.open.Load() == 1 })
	wiretest.Until(t, "they are counted", func() bool { return value(calls.methods[methods[0]].handled[codes.DeadlineExceeded]) == each })
	w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
	receive(t, served, "add 10.0.0.2:80")
}

// TestConnectionWithoutPreface: a connection on which nothing comes is closed.
func TestConnectionWithoutPreface(t *testing.T) {
	w := newWorld(t, Options{Request: time.Second})
	conn, err := net.Dial("tcp", listening(t, w.server.GRPC()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for buf := make([]byte, 1024); err == nil; {
		_, err = conn.Read(buf)
	}
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Error("the connection is open after 30 s")
	}
}
