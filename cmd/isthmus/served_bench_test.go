package main

import (
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"isthmus/grpcapi"
)

// connect serves a Destination server on a loopback address until the benchmark ends, and returns a connection to it.
func connect(b *testing.B, server *grpcapi.Server) *grpc.ClientConn {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	destination := server.GRPC()
	var serving sync.WaitGroup
	serving.Go(func() { _ = destination.Serve(listener) })
	b.Cleanup(func() {
		destination.Stop()
		serving.Wait()
	})
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}
