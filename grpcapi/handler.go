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

// service describes the Destination service as the generated code does, but for
// the handlers, which receive the request themselves: on a worker.
func (s *Server) service() *grpc.ServiceDesc {
	desc := pb.Destination_ServiceDesc
	desc.Streams = []grpc.StreamDesc{
		{StreamName: "Get", Handler: s.handler(s.openGet), ServerStreams: true},
		{StreamName: "GetProfile", Handler: s.handler(s.openProfile), ServerStreams: true},
	}
	return &desc
}

// handler serves calls that open makes streams of.
func (s *Server) handler(open func(grpc.ServerStream) (source, error)) grpc.StreamHandler {
	return func(_ any, out grpc.ServerStream) error {
		src, err := s.open(out, open)
		if err != nil {
			return err
		}
		defer s.leave(src)
		return follow(out.Context(), src)
	}
}

// open receives a request and sends the first of what that asks for, on a worker.
func (s *Server) open(out grpc.ServerStream, open func(grpc.ServerStream) (source, error)) (src source, err error) {
	s.workers.do(func() {
		if src, err = open(out); err == nil {
			err = s.admit(out.Context(), src)
		}
	})
	return src, err
}

// admit makes a stream one of those that are open, unless there is a drain, and
// sends the first that it has. After an error it is none of them.
func (s *Server) admit(ctx context.Context, src source) error {
	st := src.base()
	st.over = ctx.Done()
	if !s.enter(st) {
		return whyDraining.Err()
	}
	begun := false
	defer func() {
		if !begun {
			s.leave(src)
		}
	}()
	frames, err := src.next(ctx)
	if err == nil {
		err = st.sendAll(ctx, frames)
	}
	begun = err == nil
	return err
}

// openGet receives the request of a Get.
func (s *Server) openGet(out grpc.ServerStream) (source, error) {
	path, who, transport, err := s.receive(out, "get")
	if err != nil {
		return nil, err
	}
	to, err := parseAuthority(path, s.opts.ClusterDomain)
	if err != nil {
		return nil, err
	}
	return s.newGet(to, who, out, transport), nil
}

// openProfile receives the request of a GetProfile.
func (s *Server) openProfile(out grpc.ServerStream) (source, error) {
	path, who, transport, err := s.receive(out, "get profile")
	if err != nil {
		return nil, err
	}
	key, err := parseDestination(path, s.opts.ClusterDomain)
	if err != nil {
		return nil, err
	}
	return s.newProfile(who.of(key), out, transport), nil
}

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

// transportOf returns what can end a call's stream from any goroutine.
func transportOf(ctx context.Context) (statusWriter, error) {
	transport, ok := grpc.ServerTransportStreamFromContext(ctx).(statusWriter)
	if !ok {
		return nil, status.Error(codes.Internal, "the transport's streams can't be ended")
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
