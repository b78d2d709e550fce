package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/cmd/isthmus/internal/admin"
	"isthmus/cmd/isthmus/internal/cmdtest"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"isthmus/federation"
)

func TestMain(m *testing.M) {
	_ = os.Unsetenv(inPodVariable) // tests may run in a Pod, where a replica shuts down more slowly
	goleak.VerifyTestMain(m)
}

// testReplica is a replica with a fake cluster and an empty gRPC server.
type testReplica struct {
	*replica
	synced       chan struct{} // closed when the cluster is synced
	fail         chan error    // ends the cluster
	open         atomic.Int32  // number of open streams
	drained      chan struct{} // closed when no proxy uses this replica
	clusterEnded atomic.Bool   // set if the cluster ended because of its context
	firstEnded   atomic.Bool   // set when the part that ends first has ended
	client       *http.Client
}

func newTestReplica(t *testing.T) *testReplica {
	s := &testReplica{
		synced: make(chan struct{}), fail: make(chan error), drained: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute},
	}
	server, ready := grpc.NewServer(), new(atomic.Bool)
	s.replica = &replica{
		addr: cmdtest.FreeAddr(t), metricsAddr: cmdtest.FreeAddr(t), ready: ready, server: server, log: zap.NewNop(),
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
		admin: admin.New(admin.Options{Ready: ready.Load, Metrics: prometheus.NewRegistry(), Log: zap.NewNop()}),
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

// get returns the response of the admin server, or "" if the request fails.
func (s *testReplica) get(path string) string {
	return cmdtest.Get(s.client, "http://"+s.metricsAddr+path)
}

func (s *testReplica) listens() bool { return cmdtest.Listens(s.addr) }

// TestReplicaLife checks a replica from start to shutdown with an open stream.
func TestReplicaLife(t *testing.T) {
	s := newTestReplica(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()

	cmdtest.Eventually(t, "admin answers", func() bool { return s.get("/ping") == "pong" })
	if s.get("/ready") != "not ready" || s.listens() {
		t.Fatal("the replica is ready before the cluster is synced")
	}
	close(s.synced)
	cmdtest.Eventually(t, "ready", func() bool { return s.get("/ready") == "ok" })
	if !s.listens() || s.firstEnded.Load() {
		t.Fatal("the replica is ready, but gRPC is not served or a part has ended")
	}
	s.open.Store(1)
	cancel()
	cmdtest.Eventually(t, "readiness off", func() bool { return s.get("/ready") == "not ready" })
	cmdtest.Eventually(t, "the part that ends first has ended", s.firstEnded.Load)
	if !s.listens() || s.clusterEnded.Load() {
		t.Fatal("a stream is open, but the server or the clusters have ended")
	}
	close(s.drained)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s.listens() || !s.clusterEnded.Load() || s.get("/ping") != "" {
		t.Errorf("still running: gRPC %t, cluster %t, admin %q", s.listens(), !s.clusterEnded.Load(), s.get("/ping"))
	}
}

// TestReplicaFails checks that a part that ends also ends the replica, and that the error names the
// part.
func TestReplicaFails(t *testing.T) {
	for _, ready := range []bool{false, true} {
		for _, end := range []error{errors.New("broken"), nil} {
			s := newTestReplica(t)
			if ready {
				close(s.synced)
			}
			done := make(chan error, 1)
			go func() { done <- s.run(t.Context()) }()
			s.fail <- end
			want := "fake cluster ended unexpectedly"
			if end != nil {
				want = "fake cluster: broken"
			}
			if err := <-done; err == nil || err.Error() != want {
				t.Errorf("ready %t: error %v, want %q", ready, err, want)
			}
		}
	}
}

// TestReplicaAddressTaken checks an address that is taken during the start. TestProcessFails checks
// an address that is taken before the start.
func TestReplicaAddressTaken(t *testing.T) {
	s := newTestReplica(t)
	done := make(chan error, 1)
	go func() { done <- s.run(t.Context()) }()
	cmdtest.Eventually(t, "admin answers", func() bool { return s.get("/ping") == "pong" })
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
		t.Error("the cluster is still running")
	}
}

// TestTicks checks that Tick is called when a change is due, even if that time is moved or has
// passed. The loop ends with its context.
func TestTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, web := federation.NewTable(federation.Options{}), federation.ServiceID{Namespace: "shop", Name: "web"}
		local := func(addrs ...string) {
			table.Link(federation.Local, federation.Ready, cmdtest.Offering(federation.Local, "web", addrs...))
		}
		returnAfter := func(d time.Duration) {
			p := &federation.Preference{
				Tiers:       []federation.Tier{{{Kind: federation.LocalCluster}}, {{Kind: federation.AnyCluster}}},
				ReturnAfter: d,
			}
			table.Define(
				web,
				&federation.Definition{
					Federated:  true,
					Preference: p,
					Members:    []federation.Member{{Service: web}, {Cluster: "east", Service: web}},
				},
			)
		}
		table.Link("east", federation.Ready, cmdtest.Offering("east", "web", "10.1.0.1:80"))
		local()
		returnAfter(time.Hour)
		w := table.Watch(federation.Key{Service: web, Port: 80})
		defer w.Close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- runTicks(ctx, table) }()
		expect := func(after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if set, _ := w.Get(); len(set.Endpoints) != want {
				t.Errorf("%d endpoints, want %d", len(set.Endpoints), want)
			}
		}
		local("10.0.0.1:80")
		expect(59*time.Minute, 2)
		local()
		expect(time.Hour, 1) // no change is due any more
		local("10.0.0.1:80")
		expect(time.Minute, 2)
		returnAfter(2 * time.Minute)
		expect(time.Minute-1, 2)
		expect(1, 1)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestNoTraces checks that calls run no OpenTelemetry code if no collector is configured.
func TestNoTraces(t *testing.T) {
	if o := newTracing("", zap.NewNop()).options(); o != nil {
		t.Errorf("%d options of the gRPC server", len(o))
	}
}
