package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
	"isthmus/internal/apisim"
)

// TestMultitude requests many different hostnames of one Service with 300 endpoints, none of which
// has such a hostname. A stream with such a name must not need much more memory than a stream with
// a shared name, and must not receive any message when the Service changes. The test also logs the
// cost of a stream for an undeclared port.
func TestMultitude(t *testing.T) {
	inTurn(t)
	m := newMultitude(t)
	ports := m.costs(t, undeclaredPorts, undeclared) // first, because garbage would hide its small result
	t.Logf("%d streams of undeclared ports: %v", undeclaredPorts, ports)
	size := either(2000, 13_500)
	same := m.costs(t, size, func(int) string { return "web.many.svc.cluster.local:80" })
	t.Logf("%d streams of one port: %v", size, same)
	instances := m.costs(
		t,
		either(5000, 50_000),
		func(i int) string { return fmt.Sprintf("made-up-%d.web.many.svc.cluster.local:80", i) },
	)
	t.Logf("%d streams of hostnames that do not exist: %v", either(5000, 50_000), instances)
	if more := int64(instances.memory) - int64(same.memory); more > 16<<10 {
		t.Errorf("a stream of a hostname that does not exist uses %d bytes more than another", more)
	}
	t.Logf("without these streams, a change takes %v of CPU time", m.alone)
	if instances.sent != 0 {
		t.Errorf("streams of hostnames that do not exist received %d messages after the first", instances.sent)
	}
}

// multitude consists of a replica, its cluster with a Service of 300 endpoints, and a proxy for
// that Service.
type multitude struct {
	api     *apisim.Server
	gateway *harness.Replica
	proxy   *proxy.Stream
	turn    int
	alone   time.Duration // CPU time of a change without other streams
}

type cost struct {
	memory uint64        // bytes per stream after a garbage collection
	rss    uint64        // resident memory of the process
	change time.Duration // CPU time of a change to one endpoint
	late   time.Duration // longest delay of a change for the proxy
	sent   int64         // number of messages after the first message of each stream
}

func (c cost) String() string {
	return fmt.Sprintf(
		"%d B per stream, %d MB resident; a change takes %v of CPU time, and arrives after at most %v",
		c.memory,
		c.rss>>20,
		c.change,
		c.late,
	)
}

func newMultitude(t *testing.T, args ...string) *multitude {
	t.Helper()
	return newMultitudeWith(t, nil, args...)
}

// newMultitudeWith is like newMultitude, but sets additional environment variables (KEY=VALUE) for
// Isthmus.
func newMultitudeWith(t *testing.T, env []string, args ...string) *multitude {
	t.Helper()
	m := &multitude{}
	var err error
	m.api, err = apisim.Start("west", nil)
	must(t, err)
	t.Cleanup(func() { must(t, m.api.Close()) })
	m.api.Admit("gateway")
	must(t, m.api.Put(kube.Service("many", "web")))
	for slice := range 3 {
		o := kube.Slice("many", "web", fmt.Sprint(slice))
		for i := range 100 {
			pod := kube.Mesh(kube.Pod("many", fmt.Sprintf("web-%d-%d", slice, i), "default"))
			must(t, m.api.Put(pod))
			o.Endpoints = append(o.Endpoints, kube.PodEndpoint(fmt.Sprintf("10.7.%d.%d", slice, i+1), "many", pod.Name))
		}
		must(t, m.api.Put(o))
	}
	must(t, m.change())
	kubeconfig, err := m.api.Kubeconfig(m.api.Addr(), "gateway")
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, kubeconfig, 0o600))
	m.gateway, err = harness.StartReplica(
		t.Context(),
		harness.ReplicaConfig{Kubeconfig: path, Env: env, Args: append([]string{
			"-log-level=info", "-enable-pprof", "-shutdown-delay=0s", "-drain=0s", "-pace=0s"}, args...)},
	)
	must(t, err)
	t.Cleanup(func() { must(t, m.gateway.Stop()) })
	conn, err := proxy.Dial(m.gateway.Addr())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	m.proxy = proxy.NewStream(proxy.Config{Conn: conn, Kind: proxy.Get, Authority: "web.many.svc.cluster.local:80"})
	t.Cleanup(m.proxy.Close)
	must(t, m.proxy.Open(t.Context()))
	m.alone, _ = m.changes(t)
	return m
}

func (m *multitude) change() error {
	m.turn++
	return m.api.Put(kube.Slice("many", "web", "moving", kube.Endpoint(m.last().Addr().String())))
}

func (m *multitude) last() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 8, byte(m.turn / 250), byte(m.turn%250 + 1)}), kube.Port)
}

func (m *multitude) arrived(t *testing.T) error {
	return m.proxy.Until(t.Context(), patience, func() error {
		if !m.proxy.Snapshot().Get.Has(m.last()) {
			return fmt.Errorf("the proxy did not receive %v", m.last())
		}
		return nil
	})
}

// changes makes several changes one after the other. It returns the CPU time per change and the
// longest delay for the proxy.
func (m *multitude) changes(t *testing.T) (change, late time.Duration) {
	t.Helper()
	const count = 50
	before, err := harness.CPUTime(m.gateway.Pid())
	must(t, err)
	for range count {
		began := time.Now()
		must(t, m.change())
		must(t, m.arrived(t))
		late = max(late, time.Since(began))
	}
	after, err := harness.CPUTime(m.gateway.Pid())
	must(t, err)
	return (after - before) / count, late.Round(time.Millisecond)
}

func (m *multitude) memory(t *testing.T) uint64 {
	t.Helper()
	_, err := harness.GetPage(t.Context(), m.gateway.MetricsAddr(), "/debug/pprof/heap?gc=1")
	must(t, err)
	samples, err := harness.ReadMetrics(t.Context(), m.gateway.MetricsAddr())
	must(t, err)
	used, _ := harness.SumSamples(samples, regexp.MustCompile("^go_memstats_(heap|stack)_inuse_bytes$"))
	return uint64(used)
}

// costs opens streams, a thousand per connection, and makes changes. It then deletes the Service
// for a while, so that each stream receives a last message, and closes the streams.
func (m *multitude) costs(t *testing.T, size int, name func(int) string) (c cost) {
	t.Helper()
	before := m.memory(t)
	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop()
	first, later := make(chan error, size), new(atomic.Int64)
	var conn *grpc.ClientConn
	for i := range size {
		if i%1000 == 0 {
			var err error
			conn, err = proxy.Dial(m.gateway.Addr())
			must(t, err)
			defer conn.Close()
		}
		stream, err := get(ctx, conn, request(name(i), ""))
		must(t, err)
		reading.Go(func() {
			var message []byte
			first <- stream.RecvMsg(&message)
			for {
				message = nil
				if stream.RecvMsg(&message) != nil || isGone(message) {
					return
				}
				later.Add(1)
			}
		})
	}
	for range size {
		must(t, <-first)
	}
	c.change, c.late = m.changes(t)
	c.memory = (max(before, m.memory(t)) - before) / uint64(size)
	now, err := harness.ReadMemory(m.gateway.Pid())
	must(t, err)
	c.rss = now.RSS
	must(
		t,
		m.api.Delete(kube.Service("many", "web")),
	) // the message about the deletion follows all earlier messages of a stream
	reading.Wait()
	c.sent = later.Load()
	must(t, m.api.Put(kube.Service("many", "web")))
	must(t, m.arrived(t))
	return c
}

func isGone(message []byte) bool {
	var update pb.Update
	return proto.Unmarshal(message, &update) == nil && update.GetNoEndpoints() != nil &&
		!update.GetNoEndpoints().GetExists()
}

// TestViewMemory requests services that no other client uses until the memory for views is used up.
// Existing streams must receive every change, clients from other addresses must be served, and new
// requests must succeed after the client has disconnected.
func TestViewMemory(t *testing.T) {
	inTurn(t)
	m := newMultitude(t, "-view-memory=8Mi")
	conn, err := proxy.Dial(m.gateway.Addr())
	must(t, err)
	defer conn.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	name := func(i int) string { return fmt.Sprintf("made-up-%d.web.many.svc.cluster.local:80", i) }
	served, refused := 0, 0
	for ; refused < 100 && served < 10_000; served++ {
		if code := m.ask(ctx, t, conn, name(served)); code == codes.ResourceExhausted {
			refused++
		} else if code != codes.OK {
			t.Fatalf("stream %d: %v", served, code)
		}
	}
	if served -= refused; served < 100 || refused != 100 {
		t.Errorf("%d streams of unshared names are served, and %d rejected", served, refused)
	}
	if got := m.metric(t, "isthmus_streams_refused_total"); got != float64(refused) {
		t.Errorf("%v calls are counted as rejected, want %d", got, refused)
	}
	m.changes(t) // fails unless the existing proxy receives each change
	other := dialFrom(t, m.gateway.Addr(), net.IPv4(127, 0, 0, 2))
	for _, name := range []string{"web.many.svc.cluster.local:80", name(20_000)} {
		if code := m.ask(ctx, t, other, name); code != codes.OK {
			t.Errorf("another client that requests %s: %v", name, code)
		}
	}
	if got := m.metric(t, "isthmus_streams"); got != float64(served+3) {
		t.Errorf("%v streams are open, want %d", got, served+3)
	}
	leave()
	await(t, patience, func() error {
		if code := m.ask(t.Context(), t, conn, name(30_000)); code != codes.OK {
			return fmt.Errorf("a new name after the client has disconnected: %v", code)
		}
		return nil
	})
}

// ask opens a Get stream that stays open until ctx ends, and returns its status after the first
// message.
func (m *multitude) ask(ctx context.Context, t *testing.T, conn *grpc.ClientConn, authority string) codes.Code {
	t.Helper()
	// The flow-control window suffices for the next messages, which are few and small, so the
	// stream is not read.
	stream, err := get(ctx, conn, request(authority, ""))
	must(t, err)
	began := make(chan error, 1)
	go func() {
		var message []byte
		began <- stream.RecvMsg(&message)
	}()
	select {
	case err := <-began:
		return grpcstatus.Code(err)
	case <-time.After(patience):
		return codes.DeadlineExceeded
	}
}

func (m *multitude) metric(t *testing.T, name string) float64 {
	t.Helper()
	samples, err := harness.ReadMetrics(t.Context(), m.gateway.MetricsAddr())
	must(t, err)
	sum, _ := harness.SumSamples(samples, regexp.MustCompile("^"+name+"$"))
	return sum
}

// refusal returns the error of a stream that ends without any message.
func (m *multitude) refusal(t *testing.T, conn *grpc.ClientConn, authority string) error {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	stream, err := get(ctx, conn, request(authority, ""))
	must(t, err)
	var message []byte
	return stream.RecvMsg(&message)
}

func (m *multitude) bystander(i, turn int) error {
	name := fmt.Sprintf("bystander-%d", i)
	address := fmt.Sprintf("10.%d.%d.%d", 9+i/250, i%250, turn)
	return errors.Join(
		m.api.Put(kube.Service("many", name)),
		m.api.Put(kube.Slice("many", name, name, kube.Endpoint(address))),
	)
}
