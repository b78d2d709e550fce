package grpcapi

import (
	"context"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// service describes the Destination service as the generated code does, except for the
// handlers: generated ones receive the request before they call the server, ours
// receive it on a goroutine with a deeper stack ([runDeep]).
func (s *Server) service() *grpc.ServiceDesc {
	desc := pb.Destination_ServiceDesc
	desc.HandlerType = (*any)(nil) // the Server does not have the methods that generated handlers call
	desc.Streams = []grpc.StreamDesc{
		{StreamName: "Get", Handler: s.handler(s.receiveGet), ServerStreams: true},
		{StreamName: "GetProfile", Handler: s.handler(s.receiveProfile), ServerStreams: true},
	}
	return &desc
}

// handler returns a gRPC handler for the calls whose request receive receives.
func (s *Server) handler(receive func(grpc.ServerStream) (producer, error)) grpc.StreamHandler {
	return func(_ any, out grpc.ServerStream) error {
		return s.serve(out.Context(), func() (producer, error) { return receive(out) })
	}
}

// receiveGet receives the request of a Get.
func (s *Server) receiveGet(out grpc.ServerStream) (producer, error) {
	path, who, transport, err := s.receive(out, "get")
	if err != nil {
		return nil, err
	}
	to, err := parseAuthority(path, s.opts.ClusterDomain)
	if err != nil {
		return nil, err
	}
	st := s.newGet(to, who, out, transport)
	if asksForTiers(out.Context()) {
		st.explaining = new(explaining)
	}
	return st, nil
}

// receiveProfile receives the request of a GetProfile.
func (s *Server) receiveProfile(out grpc.ServerStream) (producer, error) {
	path, who, transport, err := s.receive(out, "get profile")
	if err != nil {
		return nil, err
	}
	key, err := parseDestination(path, s.opts.ClusterDomain)
	if err != nil {
		return nil, err
	}
	return s.newProfile(who.addNamespace(key), out, transport), nil
}

// receive receives a request of either RPC.
func (s *Server) receive(out grpc.ServerStream, method string) (path string, who token, transport statusWriter, err error) {
	req, ctx := &pb.GetDestination{}, out.Context()
	if err := out.RecvMsg(req); err != nil {
		return "", token{}, nil, err
	}
	if transport, err = transportOf(ctx); err != nil {
		return "", token{}, nil, err
	}
	path, who = req.GetPath(), parseToken(req.GetContextToken())
	s.logRequest(ctx, method, path, who)
	return path, who, transport, nil
}

// transportOf returns the call's transport stream; see statusWriter.
func transportOf(ctx context.Context) (statusWriter, error) {
	transport, ok := grpc.ServerTransportStreamFromContext(ctx).(statusWriter)
	if !ok {
		return nil, status.Error(codes.Internal, "the gateway can't end streams with this version of gRPC")
	}
	return transport, nil
}

func (s *Server) logRequest(ctx context.Context, method, path string, who token) {
	line := s.log.Check(zapcore.DebugLevel, method)
	if line == nil {
		return
	}
	remote := ""
	if p, ok := peer.FromContext(ctx); ok {
		remote = p.Addr.String()
	}
	line.Write(zap.String("path", path), zap.String("remote", remote),
		zap.String("context-ns", who.Namespace), zap.String("context-pod", who.Pod))
}
