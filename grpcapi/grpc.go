package grpcapi

import (
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"isthmus/grpcapi/wire"
	"isthmus/internal/panics"
)

const (
	// maxRequest is more than any request to this server takes.
	maxRequest = 16 << 10
	// maxHeaders is more than any call's headers take, with 32 bytes for each. gRPC keeps
	// them for as long as the call is open.
	maxHeaders = 4 << 10
	// requestWindow is how many bytes a client may send on a call before the gateway has
	// received them, and at once on a connection: HTTP/2's default, and the least that gRPC
	// allows. Unless it is given, gRPC lets the windows of a client that sends much grow
	// to 16 MiB.
	requestWindow = 64<<10 - 1
	// readBuffer is the memory that a connection keeps to read from. A call takes some
	// hundred bytes, and what else a proxy sends a dozen.
	readBuffer = 1 << 10
)

// GRPC returns a gRPC server with the Destination service, health and
// reflection. extra comes last and wins; its interceptors run inside of ours. It must
// not set a tap handle or credentials.
// Health reports SERVING until MarkNotServing or Finish.
func (s *Server) GRPC(extra ...grpc.ServerOption) *grpc.Server {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(wire.NewCodec()),
		grpc.ChainUnaryInterceptor(s.metrics.calls.unary),
		grpc.ChainStreamInterceptor(s.metrics.calls.stream()),
		grpc.InTapHandle(s.tap),
		grpc.ConnectionTimeout(s.opts.Request),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(maximumAge(s.opts.ConnectionAge, keepalive.ServerParameters{Time: 30 * time.Second})),
		grpc.MaxConcurrentStreams(s.opts.ConcurrentStreams),
		grpc.Creds(newConnectionCredentials()),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.StaticStreamWindowSize(requestWindow),
		grpc.ReadBufferSize(readBuffer),
		grpc.WaitForHandlers(true),
	}
	g := grpc.NewServer(append(options, extra...)...)
	pb.RegisterDestinationServer(g, destinationService{Server: s})
	healthpb.RegisterHealthServer(g, s.health)
	s.registerReflection(g)
	s.metrics.calls.prepare(g.GetServiceInfo())
	return g
}

// panicked reports a panic, and returns what it is for the client.
func (s *Server) panicked(method string, r any) error {
	s.opts.Supervisor.Report(panics.Work{Where: panics.Stream, Object: method}, r)
	return status.Error(codes.Internal, "the gateway failed to handle this call")
}
