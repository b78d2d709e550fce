package grpcapi

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// Reflection is for people who debug. Its answers are large, and repeat what was asked,
// so what clients can leave of them is bounded:
//
//   - There are maxReflections calls at a time.
//   - The client takes each answer within Options.Request, or its connection is closed.
//     Requests that it sends meanwhile wait in its window, 64 KiB of them.
//   - A connection has maxReflected answers in all: those of short calls fit into
//     buffers, where no time limit notices them.
const (
	maxReflections = 10
	maxReflected   = 500
)

// Statuses of calls beyond these limits.
var (
	statusReflections = status.New(codes.ResourceExhausted, "too many reflection calls at a time: try again later")
	statusReflected   = status.New(codes.ResourceExhausted, "too many answers of reflection on one connection: use a new one")
)

// registerReflection registers the services of reflection, with their limits.
func (s *Server) registerReflection(g *grpc.Server) {
	reflection.Register(&limitedReflection{Server: g, server: s})
}

// limitedReflection is a gRPC server, as reflection.Register sees it.
type limitedReflection struct {
	*grpc.Server
	server *Server
	open   atomic.Int32
}

// RegisterService implements grpc.ServiceRegistrar. It registers the service with
// handlers that keep the limits.
func (l *limitedReflection) RegisterService(desc *grpc.ServiceDesc, impl any) {
	limited := *desc
	limited.Streams = nil
	for _, stream := range desc.Streams {
		handle := stream.Handler
		stream.Handler = func(srv any, ss grpc.ServerStream) error {
			defer l.open.Add(-1)
			if l.open.Add(1) > maxReflections {
				return statusReflections.Err()
			}
			return handle(srv, &reflectionCall{ss, l.server, connectionOf(ss.Context())})
		}
		limited.Streams = append(limited.Streams, stream)
	}
	l.Server.RegisterService(&limited, impl)
}

// reflectionCall is a call of reflection.
type reflectionCall struct {
	grpc.ServerStream
	server *Server
	conn   *clientConnection // nil: not known
}

// SendMsg sends an answer. If the client does not take it in time, the connection is
// closed: the call's status alone would wait behind the answers.
func (c *reflectionCall) SendMsg(m any) error {
	if c.conn == nil {
		return status.Error(codes.Internal, "the gateway can't bound reflection without its own transport credentials")
	}
	if c.conn.reflected.Add(1) > maxReflected {
		return statusReflected.Err()
	}
	due := time.AfterFunc(c.server.opts.Request, func() { c.server.closeConnection(c.conn, closedReflection) })
	defer due.Stop()
	return c.ServerStream.SendMsg(m)
}
