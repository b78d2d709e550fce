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

// stand is a gateway on a fake follower and an empty gRPC server.
type stand struct {
	*gateway
	known   chan struct{} // of the follower
	fail    chan error    // ends the follower
	open    atomic.Int32  // streams
	drained chan struct{} // all proxies have gone elsewhere
	let     atomic.Bool   // the follower was let go
	first   atomic.Bool   // what is to end first has
	client  *http.Client
}

func newStand(t *testing.T) *stand {
	s := &stand{
		known: make(chan struct{}), fail: make(chan error), drained: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute},
	}
	server, ready := grpc.NewServer(), new(atomic.Bool)
	s.gateway = &gateway{
		addr: freeAddr(t), metricsAddr: freeAddr(t), ready: ready, server: server, log: zap.NewNop(),
		followers: []follower{{"fake cluster", func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				s.let.Store(true)
				return ctx.Err()
			case err := <-s.fail:
				return err
			}
		}, s.known}},
		firstToEnd: []follower{{name: "fake writer", run: func(ctx context.Context) error {
			<-ctx.Done()
			s.first.Store(true)
			return nil
		}}},
		admin: &admin{ready: ready.Load, metrics: prometheus.NewRegistry(), log: zap.NewNop()},
		ending: &ending{
			streams: func() int { return int(s.open.Load()) }, leave: func() {},
			drain: func(ctx context.Context) { <-ctx.Done() },
			deserted: func(context.Context, time.Duration) bool {
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

// freeAddr is an address that nobody listens on. Its port is below those that systems hand out by themselves: a connection
// could otherwise take it before it is listened on.
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

// says returns the admin server's answer, empty if there is none.
func (s *stand) says(path string) string {
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

func (s *stand) listens() bool {
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
			t.Fatal("in vain: " + what)
		}
	}
}

// TestGatewayLife goes from start to shutdown with an open stream.
func TestGatewayLife(t *testing.T) {
	s := newStand(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()

	eventually(t, "admin answers", func() bool { return s.says("/ping") == "pong" })
	if s.says("/ready") != "not ready" || s.listens() {
		t.Fatal("ready before anything is known")
	}
	close(s.known)
	eventually(t, "ready", func() bool { return s.says("/ready") == "ok" })
	if !s.listens() || s.first.Load() {
		t.Fatal("ready, but gRPC is not served, or a part has ended")
	}
	s.open.Store(1)
	cancel()
	eventually(t, "readiness off", func() bool { return s.says("/ready") == "not ready" })
	eventually(t, "what is to end first has", s.first.Load)
	if !s.listens() || s.let.Load() {
		t.Fatal("a stream is open, but the server or the clusters are gone")
	}
	close(s.drained)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s.listens() || !s.let.Load() || s.says("/ping") != "" {
		t.Errorf("still there: gRPC %t, follower %t, admin %q", s.listens(), !s.let.Load(), s.says("/ping"))
	}
}

// TestGatewayEndsEarly: a signal before it is ready ends it too.
func TestGatewayEndsEarly(t *testing.T) {
	s := newStand(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	eventually(t, "admin answers", func() bool { return s.says("/ping") == "pong" })
	cancel()
	if err := <-done; err != nil || !s.let.Load() {
		t.Errorf("error %v, follower let go: %t", err, s.let.Load())
	}
}

// TestGatewayFails: a part that ends takes the process along, and is named.
func TestGatewayFails(t *testing.T) {
	for _, ready := range []bool{false, true} {
		for _, end := range []error{errors.New("broken"), nil} {
			s := newStand(t)
			if ready {
				close(s.known)
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

// TestGatewayAddressTaken: found out before anything is started, or in between.
func TestGatewayAddressTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newStand(t)
	s.metricsAddr = l.Addr().String()
	if err := s.run(t.Context()); err == nil || !strings.Contains(err.Error(), "--metrics-addr: listen tcp "+l.Addr().String()) {
		t.Errorf("error %v", err)
	}
	s = newStand(t)
	s.addr = l.Addr().String()
	if err := s.run(t.Context()); err == nil || !strings.Contains(err.Error(), "--addr: listen tcp "+l.Addr().String()) {
		t.Errorf("error %v", err)
	}
	if s.let.Load() {
		t.Error("a follower was started")
	}

	s = newStand(t)
	done := make(chan error, 1)
	go func() { done <- s.run(t.Context()) }()
	eventually(t, "admin answers", func() bool { return s.says("/ping") == "pong" })
	late, err := net.Listen("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	close(s.known)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "--addr: listen tcp "+s.addr) {
		t.Errorf("error %v", err)
	}
	if !s.let.Load() {
		t.Error("the follower was not let go")
	}
}
