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
	desc.HandlerType = (*any)(nil) // the methods are not those that generated handlers call
	desc.Streams = []grpc.StreamDesc{
		{StreamName: "Get", Handler: s.handler(s.receiveGet), ServerStreams: true},
		{StreamName: "GetProfile", Handler: s.handler(s.receiveProfile), ServerStreams: true},
	}
	return &desc
}

// handler serves calls, of which receive makes streams.
func (s *Server) handler(receive func(grpc.ServerStream) (source, error)) grpc.StreamHandler {
	return func(_ any, out grpc.ServerStream) error {
		return s.serve(out.Context(), func() (source, error) { return receive(out) })
	}
}

// serve runs a stream until it ends; receive makes it.
func (s *Server) serve(ctx context.Context, receive func() (source, error)) error {
	o := &opening{server: s, ctx: ctx, receive: receive}
	defer o.leave()
	s.workers.do(o.begin)
	if o.err == nil && !o.begun { // a wait takes no worker
		if o.err = o.src.wait(ctx); o.err == nil {
			s.workers.do(o.send)
		}
	}
	if o.err != nil {
		return o.err
	}
	return follow(ctx, o.src)
}

// opening is a call up to its first messages. Its methods are for workers, and
// say in err how they went.
type opening struct {
	server  *Server // fixed, as are ctx and receive
	ctx     context.Context
	receive func() (source, error)

	src   source // one of those that are open; nil: none yet
	begun bool   // the first messages are sent
	err   error
}

// begin receives the request, opens what it asks for, unless the server has
// finished, and sends the first messages, if they are known.
func (o *opening) begin() {
	src, err := o.receive()
	if err != nil {
		o.err = err
		return
	}
	st := src.common()
	st.over = o.ctx.Done()
	if !o.server.enter(st) {
		o.err = whyDraining.Err()
		return
	}
	o.src = src
	if src.open() {
		o.send()
	}
}

// send sends the first messages.
func (o *opening) send() {
	frames, err := o.src.next(o.ctx)
	if err == nil {
		err = o.src.common().sendAll(o.ctx, frames)
	}
	o.begun, o.err = err == nil, err
}

// leave releases the stream, if there is one.
func (o *opening) leave() {
	if o.src != nil {
		defer o.server.leave(o.src.common())
		o.src.close()
	}
}

// receiveGet receives the request of a Get.
func (s *Server) receiveGet(out grpc.ServerStream) (source, error) {
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

// receiveProfile receives the request of a GetProfile.
func (s *Server) receiveProfile(out grpc.ServerStream) (source, error) {
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
