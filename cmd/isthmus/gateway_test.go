package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// testGateway is a gateway on a fake cluster and an empty gRPC server.
type testGateway struct {
	*gateway
	synced       chan struct{} // of the cluster
	fail         chan error    // ends the cluster
	open         atomic.Int32  // streams
	drained      chan struct{} // all proxies have gone elsewhere
	clusterEnded atomic.Bool   // by its context
	firstEnded   atomic.Bool   // the part that ends first
	client       *http.Client
}

func newTestGateway(t *testing.T) *testGateway {
	s := &testGateway{
		synced: make(chan struct{}), fail: make(chan error), drained: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute},
	}
	server, ready := grpc.NewServer(), new(atomic.Bool)
	s.gateway = &gateway{
		addr: freeAddr(t), metricsAddr: freeAddr(t), ready: ready, server: server, log: zap.NewNop(),
		clusters: []part{{"fake cluster", func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				s.clusterEnded.Store(true)
				return ctx.Err()
			case err := <-s.fail:
				return err
			}
		}, s.synced}},
		endFirst: []part{{name: "fake writer", run: func(ctx context.Context) error {
			<-ctx.Done()
			s.firstEnded.Store(true)
			return nil
		}}},
		admin: &admin{ready: ready.Load, metrics: prometheus.NewRegistry(), log: zap.NewNop()},
		shutdown: &shutdown{
			streams: func() int { return int(s.open.Load()) }, markNotServing: func() {},
			drain: func(ctx context.Context) { <-ctx.Done() },
			waitUnused: func(context.Context, time.Duration) bool {
				<-s.drained
				s.open.Store(0)
				return true
			},
			finish:   func() {},
			graceful: server.GracefulStop, abort: server.Stop, spread: time.Minute, log: zap.NewNop(),
		},
	}
	return s
}

// freeAddr returns an address without a listener. Its port is below those that systems choose themselves: a connection
// could otherwise take it before the test listens on it.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20000+rand.IntN(10000))); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port in a hundred")
	return ""
}

// get returns the admin server's answer, empty if there is none.
func (s *testGateway) get(path string) string {
	resp, err := s.client.Get("http://" + s.metricsAddr + path)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(body))
}

func (s *testGateway) listens() bool {
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	limit, tick := time.After(time.Minute), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("after a minute, not yet: " + what)
		}
	}
}

// TestGatewayLife goes from start to shutdown with an open stream.
func TestGatewayLife(t *testing.T) {
	s := newTestGateway(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()

	eventually(t, "admin answers", func() bool { return s.get("/ping") == "pong" })
	if s.get("/ready") != "not ready" || s.listens() {
		t.Fatal("ready before the cluster is synced")
	}
	close(s.synced)
	eventually(t, "ready", func() bool { return s.get("/ready") == "ok" })
	if !s.listens() || s.firstEnded.Load() {
		t.Fatal("ready, but gRPC is not served, or a part has ended")
	}
	s.open.Store(1)
	cancel()
	eventually(t, "readiness off", func() bool { return s.get("/ready") == "not ready" })
	eventually(t, "the part that ends first has ended", s.firstEnded.Load)
	if !s.listens() || s.clusterEnded.Load() {
		t.Fatal("a stream is open, but the server or the clusters are gone")
	}
	close(s.drained)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s.listens() || !s.clusterEnded.Load() || s.get("/ping") != "" {
		t.Errorf("still there: gRPC %t, cluster %t, admin %q", s.listens(), !s.clusterEnded.Load(), s.get("/ping"))
	}
}

// TestGatewayFails: a part that ends takes the process along, and is named.
func TestGatewayFails(t *testing.T) {
	for _, ready := range []bool{false, true} {
		for _, end := range []error{errors.New("broken"), nil} {
			s := newTestGateway(t)
			if ready {
				close(s.synced)
			}
			done := make(chan error, 1)
			go func() { done <- s.run(t.Context()) }()
			s.fail <- end
			want := "fake cluster has ended by itself"
			if end != nil {
				want = "fake cluster: broken"
			}
			if err := <-done; err == nil || err.Error() != want {
				t.Errorf("ready %t: error %v, want %q", ready, err, want)
			}
		}
	}
}

// TestGatewayAddressTaken: also while it starts; TestProcessFails has one that is taken before.
func TestGatewayAddressTaken(t *testing.T) {
	s := newTestGateway(t)
	done := make(chan error, 1)
	go func() { done <- s.run(t.Context()) }()
	eventually(t, "admin answers", func() bool { return s.get("/ping") == "pong" })
	late, err := net.Listen("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	close(s.synced)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "--addr: listen tcp "+s.addr) {
		t.Errorf("error %v", err)
	}
	if !s.clusterEnded.Load() {
		t.Error("the cluster was not ended")
	}
}
