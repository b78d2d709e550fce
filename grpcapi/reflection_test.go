package grpcapi

import (
	"context"
	"io"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"isthmus/grpcapi/internal/wiretest"
)

func reflectionRequest() *reflectionpb.ServerReflectionRequest {
	return &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: pb.Destination_ServiceDesc.ServiceName,
	}}
}

// TestUntakenReflection: short calls of reflection leave a bounded number of answers
// on a connection that takes none.
func TestUntakenReflection(t *testing.T) {
	const more = 50
	w := newWorld(t, Options{})
	addr := listening(t, w.server.GRPC())
	c := newBareClient(t, addr)
	const method = reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName
	list := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
	ends := w.server.metrics.calls.methods[method].handled
	for i := range maxReflected + more {
		if err := c.call(method, list); err != nil {
			t.Fatal(err)
		}
		if (i+1)%maxReflections == 0 { // so that there are not more at a time
			wiretest.Until(t, "the calls are over", func() bool {
				return value(ends[codes.OK])+value(ends[codes.ResourceExhausted]) == float64(i+1)
			})
		}
	}
	if got := value(ends[codes.OK]); got != maxReflected {
		t.Errorf("%v calls have left an answer", got)
	}
	if got := c.ended(t, more); got["8"] != more {
		t.Errorf("the others end with %v", got)
	}
	if _, err := reflect(t.Context(), t, addr); err != nil {
		t.Error("another connection: ", err)
	}
}

// reflect opens a call of reflection on a connection of its own, and receives one answer.
func reflect(ctx context.Context, t *testing.T, addr string) (reflectionStream, error) {
	t.Helper()
	s, err := reflectionpb.NewServerReflectionClient(connect(t, addr)).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Send(reflectionRequest()); err != nil && err != io.EOF {
		return nil, err
	}
	answer, err := s.Recv()
	if err == nil && len(answer.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("the answer describes nothing: %v", answer)
	}
	return s, err
}

type reflectionStream = grpc.BidiStreamingClient[reflectionpb.ServerReflectionRequest, reflectionpb.ServerReflectionResponse]

// TestReflectionAtOnce: there is a limit of calls of reflection at a time.
func TestReflectionAtOnce(t *testing.T) {
	w := newWorld(t, Options{Request: time.Minute})
	addr := listening(t, w.server.GRPC())
	var last reflectionStream
	for range maxReflections {
		var err error
		if last, err = reflect(t.Context(), t, addr); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := reflect(t.Context(), t, addr); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	if err := last.CloseSend(); err != nil {
		t.Fatal(err)
	}
	wiretest.Until(t, "another one is served", func() bool {
		_, err := reflect(t.Context(), t, addr)
		return err == nil
	})
}

// TestUnreadReflection: calls of reflection that send requests and take no answers end
// with their connections.
func TestUnreadReflection(t *testing.T) {
	w := newWorld(t, Options{Request: time.Second})
	addr := listening(t, w.server.GRPC())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const calls = maxReflections
	ends := make(chan error, calls)
	for range calls {
		conn := connect(t, addr)
		go func() {
			s, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
			for err == nil { // until the server does not receive any more, and then until it ends the call
				err = s.Send(reflectionRequest())
			}
			if s != nil {
				for err = nil; err == nil; {
					_, err = s.Recv()
				}
			}
			ends <- err
		}()
	}
	codeOf := make(map[codes.Code]int)
	for range calls {
		codeOf[status.Code(<-ends)]++
	}
	if ctx.Err() != nil || codeOf[codes.Unavailable] == 0 {
		t.Errorf("calls that take no answers end with %v (%v)", codeOf, ctx.Err())
	}
	if got := value(w.server.metrics.closed.WithLabelValues(closedReflection)); got == 0 {
		t.Error("no connection is counted as closed")
	}
	wiretest.Until(t, "no call is open", func() bool { return w.server.calls.inUse() == 0 })
	if _, err := reflect(ctx, t, addr); err != nil {
		t.Error("a later call: ", err)
	}
}
