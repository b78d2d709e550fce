package grpcapi

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// statusNoRequest ends a call whose request has not come within Options.Request.
var statusNoRequest = status.New(codes.DeadlineExceeded, "the request did not come in time")

// RecvMsg receives a message. If it does not come within Options.Request, the call ends
// with DeadlineExceeded: a call costs memory as soon as it has headers, and a client
// that sends nothing more would never end it.
func (c *countedCall) RecvMsg(m any) error {
	transport, err := transportOf(c.Context())
	if err != nil {
		return err
	}
	due := time.AfterFunc(c.metrics.requestTimeout, func() { _ = transport.WriteStatus(statusNoRequest) })
	err = c.ServerStream.RecvMsg(m)
	if !due.Stop() {
		return statusNoRequest.Err()
	}
	transport = nil // the timer has it: see budget.keep
	if err == nil {
		c.method.received.Inc()
	}
	return err
}

// tap is a tap.ServerInHandle: gRPC calls it when the headers of a call have come.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	ctx, taken, err := s.budget.admit(ctx, connectionOf(ctx).client(), info)
	if err != nil || refusal(ctx) != nil {
		return ctx, err
	}
	return s.budget.keep(s.metrics.calls.tap(ctx, info), taken), nil
}

// tap counts a unary call, and sets its deadline. gRPC receives the request of a unary call before it
// calls interceptors, so the deadline of such a call is set here. It is one for the whole call: the answers of unary methods do not take time.
//
// Their streams have no deadline here, because a context that ends ends the call.
func (c *callMetrics) tap(ctx context.Context, info *tap.Info) context.Context {
	m := c.methods[info.FullMethodName]
	if m == nil || !m.unary {
		return ctx
	}
	c.open.Add(1)
	context.AfterFunc(ctx, func() { c.open.Add(-1) }) // gRPC cancels it at the end of the call
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout)
	_ = cancel // it ends with its parent
	return ctx
}
