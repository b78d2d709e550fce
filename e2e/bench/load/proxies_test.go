package load_test

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"isthmus/e2e/bench/load"
	"isthmus/e2e/proxy/destinationtest"
)

// TestProxies: proxies pass by a replica that takes no connections, and come back after a refusal and after the end of a stream.
func TestProxies(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	var first sync.Once
	var refused string // the connection that comes first
	server, end := destinationtest.Start(t), make(chan struct{})
	server.OnGet("web:80", func(stream grpc.ServerStreamingServer[pb.Update]) error {
		from, _ := peer.FromContext(stream.Context())
		first.Do(func() { refused = from.Addr.String() })
		if from.Addr.String() == refused {
			return status.Error(codes.ResourceExhausted, "enough")
		}
		if err := stream.Send(destinationtest.Add("10.0.0.1:80")); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
		case <-end: // one stream takes it
		}
		return nil
	})
	target := []load.Target{{Authority: "web:80"}, {Authority: "web:80"}}
	p := load.StartProxies(load.ProxiesConfig{Addrs: []string{gone.Addr().String(), server.Addr()}, Targets: [][]load.Target{target, target, target}})
	defer p.Close()
	if err := p.Await(limited(t), time.Minute, 3); err != nil {
		t.Fatal(err)
	}
	ended := time.Now()
	end <- struct{}{}
	if err := p.Await(limited(t), time.Minute, 4); err != nil {
		t.Fatal(err)
	}
	if all := p.Failures(); len(all) != 1 || all[0].Addr != server.Addr() || !strings.Contains(all[0].Err.Error(), "enough") {
		t.Errorf("failures %+v", all)
	}
	again := p.Openings(ended)
	if len(again) != 1 || again[0].Addr != server.Addr() || len(again[0].First) != 2 || again[0].First[0].Before(again[0].Began) {
		t.Fatalf("opened again: %+v", again)
	}
	if after := again[0].Began.Sub(ended); after < 80*time.Millisecond {
		t.Errorf("a proxy came back after %v", after)
	}
	if err := p.Await(limited(t), time.Millisecond, 5); err == nil || !strings.Contains(err.Error(), "4 connections have been opened, not 5; failures: 1") {
		t.Error(err)
	}
	streams := 0
	for _, l := range p.Loads() {
		streams += l.Streams()
	}
	if streams != 6 {
		t.Errorf("%d streams", streams)
	}
}
