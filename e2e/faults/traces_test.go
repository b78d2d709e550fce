package faults

import (
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
)

// traces is a trace collector that stores all messages without decoding, because strings in them
// can be searched directly.
type traces struct {
	addr string

	mu       sync.Mutex
	received strings.Builder
}

func collectTraces(t *testing.T) *traces {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := &traces{addr: l.Addr().String()}
	server := grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.UnknownServiceHandler(c.keep))
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		must(t, <-done)
	})
	return c
}

// keep stores a message of any method and returns an empty message, which means success.
func (c *traces) keep(_ any, stream grpc.ServerStream) error {
	var message []byte
	if err := stream.RecvMsg(&message); err != nil {
		return err
	}
	c.mu.Lock()
	c.received.Write(message)
	c.mu.Unlock()
	return stream.SendMsg(new([]byte))
}

func (c *traces) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received.String()
}
