package grpcapi

import (
	"slices"
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
	// maxHeaders is how many bytes the headers of a call may take, with 32 bytes for each. A proxy's take less
	// than 1 KiB. gRPC keeps headers for as long as the call.
	maxHeaders = 2 << 10
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
	healthpb.RegisterHealthServer(streamRegistrar{g, s.metrics.calls.stream()}, s.health)
	s.registerReflection(g)
	s.metrics.calls.prepare(g.GetServiceInfo())
	return g
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

// panicked reports a panic, and returns what it is for the client.
func (s *Server) panicked(method string, r any) error {
	s.opts.Supervisor.Report(panics.Work{Where: panics.Stream, Object: method}, r)
	return status.Error(codes.Internal, "the gateway failed to handle this call")
}
