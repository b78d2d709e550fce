package grpcapi

import (
	"runtime/debug"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"isthmus/grpcapi/wire"
)

// maxRequest is more than any request to this server takes.
const maxRequest = 64 << 10

// GRPC returns a gRPC server with the Destination service, health and
// reflection. extra comes last and wins; its interceptors run inside of ours. It must
// not set a tap handle.
// Health reports SERVING until MarkNotServing or Finish.
func (s *Server) GRPC(extra ...grpc.ServerOption) *grpc.Server {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(wire.NewCodec()),
		grpc.ChainUnaryInterceptor(s.metrics.calls.unary),
		grpc.ChainStreamInterceptor(s.metrics.calls.stream()),
		grpc.InTapHandle(s.metrics.calls.tap),
		grpc.ConnectionTimeout(s.opts.Request),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(maximumAge(s.opts.ConnectionAge, keepalive.ServerParameters{Time: 30 * time.Second})),
		grpc.MaxConcurrentStreams(s.opts.ConcurrentStreams),
		grpc.Creds(newDatedCredentials()),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxHeaderListSize(maxRequest),
		grpc.ReadBufferSize(4 << 10),
		grpc.WaitForHandlers(true),
	}
	g := grpc.NewServer(append(options, extra...)...)
	g.RegisterService(s.service(), s)
	healthpb.RegisterHealthServer(g, s.health)
	reflection.Register(g)
	s.metrics.calls.prepare(g.GetServiceInfo())
	return g
}

// panicked reports a panic, and returns what it is for the client.
func (s *Server) panicked(method string, r any) error {
	s.metrics.panics.Inc()
	s.log.Error("panic in a call", zap.String("method", method), zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
	return status.Error(codes.Internal, "the gateway failed to handle this call")
}
