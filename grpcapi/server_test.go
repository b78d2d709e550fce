package grpcapi

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"isthmus/grpcapi/internal/wiretest"
	"isthmus/internal/panics"
)

// dial serves the world in memory, and returns a connection to the server.
func (w *world) dial(t testing.TB) *grpc.ClientConn {
	t.Helper()
	lis := bufconn.Listen(1 << 16)
	g := w.server.GRPC()
	served := make(chan error, 1)
	go func() { served <- g.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:///gateway",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return conn
}

// listening serves until the test ends, and returns the address.
func listening(t testing.TB, g *grpc.Server) string {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(lis) })
	t.Cleanup(func() {
		g.Stop()
		serving.Wait()
	})
	return lis.Addr().String()
}

// get opens a Get that ends with the test.
func get(t testing.TB, conn *grpc.ClientConn, authority, token string) (pb.Destination_GetClient, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	s, err := pb.NewDestinationClient(conn).
		Get(ctx, &pb.GetDestination{Scheme: "k8s", Path: authority, ContextToken: token})
	if err != nil {
		t.Fatal(err)
	}
	return s, cancel
}

// receive receives a message. The test fails if the message differs from want.
func receive(t testing.TB, s pb.Destination_GetClient, want string) {
	t.Helper()
	m, err := s.Recv()
	if err != nil {
		t.Fatalf("got %v, want %s", err, want)
	}
	if got := wiretest.Line(m); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

// TestHugeRequest checks that a request larger than maxRequest is refused.
func TestHugeRequest(t *testing.T) {
	w := newWorld(t, Options{})
	s, _ := get(t, w.dial(t), strings.Repeat("x", maxRequest), "")
	if _, err := s.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the call ends with %v", err)
	}
}

func TestHealth(t *testing.T) {
	w := newWorld(t, Options{})
	conn := w.dial(t)
	health := healthpb.NewHealthClient(conn)
	check := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, name := range []string{"", "io.linkerd.proxy.destination.Destination"} {
			r, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
			if err != nil || r.Status != want {
				t.Errorf("%q: %v, %v; want %v", name, r, err, want)
			}
		}
	}
	check(healthpb.HealthCheckResponse_SERVING)
	w.server.MarkNotServing()
	check(healthpb.HealthCheckResponse_NOT_SERVING)
}

// TestPanicEndsOneStreamOnly checks that a panic ends one stream and releases its view.
func TestPanicEndsOneStreamOnly(t *testing.T) {
	supervisor := panics.New(zap.NewNop())
	w := newWorld(t, Options{Pace: -1, Supervisor: supervisor})
	w.offer("", pods("10.0.0.1:80")...)
	conn := w.dial(t)
	good, _ := get(t, conn, webAddr, "")
	receive(t, good, "add 10.0.0.1:80")
	bad, _ := get(t, conn, webAddr, `{"nodeName":"cursed"}`)
	receive(t, bad, "add 10.0.0.1:80")
	w.nodes.curse("cursed")
	w.nodes.move("cursed", "a")
	if _, err := bad.Recv(); status.Code(err) != codes.Internal {
		t.Fatalf("got %v", err)
	}
	if n := supervisor.Count(panics.Stream); n != 1 {
		t.Errorf("%v panics were counted", n)
	}
	wiretest.Until(t, "the stream is gone", func() bool { return w.server.Streams() == 1 })
	if all, idle, _ := w.server.getViews.count(); all-idle != 1 {
		t.Errorf("%d views in use", all-idle)
	}
	w.offer("", pods("10.0.0.1:80", "10.0.0.2:80")...)
	receive(t, good, "add 10.0.0.2:80")
}

// TestConcurrentStreams checks that calls beyond the limit of a connection wait until others end.
// Other connections do not wait.
func TestConcurrentStreams(t *testing.T) {
	w := newWorld(t, Options{ConcurrentStreams: 2})
	w.offer("", pods("10.0.0.1:80")...)
	conn := w.dial(t)
	var last context.CancelFunc
	for range 2 {
		var s pb.Destination_GetClient
		s, last = get(t, conn, webAddr, "")
		receive(t, s, "add 10.0.0.1:80")
	}
	begun := make(chan error, 1)
	go func() {
		s, err := pb.NewDestinationClient(conn).Get(t.Context(), &pb.GetDestination{Scheme: "k8s", Path: webAddr})
		if err == nil {
			_, err = s.Recv()
		}
		begun <- err
	}()
	other, _ := get(t, w.dial(t), webAddr, "")
	receive(t, other, "add 10.0.0.1:80")
	if n := w.server.Streams(); n != 3 {
		t.Errorf("%d streams are open", n)
	}
	last()
	if err := <-begun; err != nil {
		t.Error("the waiting call failed: ", err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
