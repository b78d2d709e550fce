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

// destinationService implements the Destination service.
type destinationService struct {
	pb.UnimplementedDestinationServer
	*Server
}

// Get implements pb.DestinationServer.
func (s destinationService) Get(req *pb.GetDestination, out pb.Destination_GetServer) error {
	path, who, transport, err := s.read(out.Context(), req, "get")
	if err != nil {
		return err
	}
	to, err := parseAuthority(path, s.opts.ClusterDomain)
	if err != nil {
		return err
	}
	st := s.newGet(to, who, out, transport)
	st.explains = asksForTiers(out.Context())
	return s.serve(out.Context(), st)
}

// GetProfile implements pb.DestinationServer.
func (s destinationService) GetProfile(req *pb.GetDestination, out pb.Destination_GetProfileServer) error {
	path, who, transport, err := s.read(out.Context(), req, "get profile")
	if err != nil {
		return err
	}
	key, err := parseDestination(path, s.opts.ClusterDomain)
	if err != nil {
		return err
	}
	return s.serve(out.Context(), s.newProfile(who.addNamespace(key), out, transport))
}

// read reads a request of either RPC.
func (s *Server) read(ctx context.Context, req *pb.GetDestination, method string) (path string, who token, transport statusWriter, err error) {
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
