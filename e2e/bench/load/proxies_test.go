package load_test

import (
	"net"
	"strings"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
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
	server, turn, end := destinationtest.Start(t), make(chan int, 100), make(chan struct{})
	for i := range cap(turn) {
		turn <- i
	}
	const last = 7 // of the calls of three proxies, of which one comes twice
	server.OnGet("web:80", func(stream grpc.ServerStreamingServer[pb.Update]) error {
		n := <-turn
		if n == 0 {
			return status.Error(codes.ResourceExhausted, "enough")
		}
		if err := stream.Send(destinationtest.Add("10.0.0.1:80")); err != nil || n != last {
			<-stream.Context().Done()
			return err
		}
		<-end
		return nil
	})
	target := []load.Target{{Authority: "web:80"}, {Authority: "web:80"}}
	p := load.StartProxies(load.ProxiesConfig{Addrs: []string{gone.Addr().String(), server.Addr()}, Targets: [][]load.Target{target, target, target}})
	defer p.Close()
	if err := p.Await(limited(t), time.Minute, 3); err != nil {
		t.Fatal(err)
	}
	ended := time.Now()
	close(end)
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
	p.Each(func(l *load.Load) { streams += l.Streams() })
	if streams != 6 {
		t.Errorf("%d streams", streams)
	}
}
