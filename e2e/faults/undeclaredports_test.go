package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"isthmus/e2e/harness"
	"isthmus/e2e/proxy"
)

const (
	// undeclaredPorts is the maximum number of undeclared ports per Service that have views at the
	// same time.
	undeclaredPorts = 64
	// portsMemory is the memory limit for Go in a container with 500 MiB. portsPeak is the maximum
	// memory of the process.
	portsMemory, portsPeak = "450MiB", 450_000_000
)

// undeclared returns an authority with a port that the Service does not declare.
func undeclared(i int) string { return fmt.Sprintf("web.many.svc.cluster.local:%d", 10_000+i) }

// TestUndeclaredPorts opens streams for 20,000 undeclared ports of a Service with 300 endpoints
// while the Service changes. All streams but 64 must be rejected. Memory must stay below the limit.
// New names for another client, and changes to another Service, must be served within a second.
func TestUndeclaredPorts(t *testing.T) {
	inTurn(t)
	const ports, connections, names = 20_000, 3, 1000
	m := newMultitudeWith(t, []string{"GOMEMLIMIT=" + portsMemory})
	for i := range names {
		must(t, m.bystander(i, 1))
	}
	conn, err := proxy.Dial(m.gateway.Addr())
	must(t, err)
	defer conn.Close()
	b := &bystanders{multitude: m, conn: conn}
	b.watch(t)

	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() { // change the attacked Service
		for ctx.Err() == nil {
			if err := errors.Join(m.change(), harness.Pause(ctx, 10*time.Millisecond)); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	began := make(chan error, ports)
	all.Go(func() {
		conns := make([]*grpc.ClientConn, connections)
		for i := range conns {
			c, err := proxy.Dial(m.gateway.Addr())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			conns[i] = c
		}
		for i := range ports {
			stream, err := get(ctx, conns[i%connections], request(undeclared(i), ""))
			if err != nil {
				began <- err
				continue
			}
			all.Go(func() {
				var message []byte
				err := stream.RecvMsg(&message)
				for began <- err; err == nil; {
					err = stream.RecvMsg(&message)
				}
			})
		}
		<-ctx.Done() // keep the connections open
	})
	for turn := 1; turn < names && (len(began) < ports || turn <= 20); turn++ {
		b.check(t, turn)
		must(t, harness.Pause(t.Context(), 20*time.Millisecond))
	}
	counts := make(map[codes.Code]int)
	for range ports {
		counts[grpcstatus.Code(<-began)]++
	}
	if counts[codes.OK] != undeclaredPorts || counts[codes.ResourceExhausted] != ports-undeclaredPorts {
		t.Errorf("the streams begin with %v", counts)
	}
	err = m.refusal(t, conn, undeclared(ports))
	if s := grpcstatus.Convert(err); s.Code() != codes.ResourceExhausted ||
		!strings.Contains(s.Message(), "declare the port") {
		t.Errorf("one more port: %v", err)
	}
	peak, err := harness.PeakMemory(m.gateway.Pid())
	if err != nil || peak > portsPeak {
		t.Errorf("the replica used %d MB (%v)", peak/1_000_000, err)
	}
	t.Logf("the replica used at most %d MB; a new name was served after at most %v, "+
		"and a change of another Service arrived after at most %v",
		peak/1_000_000, b.served.Round(time.Millisecond), b.changed.Round(time.Millisecond))
	if limit := either(patience, time.Second); max(b.served, b.changed) > limit {
		t.Errorf("the limit is %v", limit)
	}
}

// bystanders are clients of Services that are not under attack.
type bystanders struct {
	*multitude
	conn    *grpc.ClientConn
	watched *proxy.Stream // stream for the first Service
	served  time.Duration // longest time until a stream for a new name began
	changed time.Duration // longest delay of a change
}

func (b *bystanders) watch(t *testing.T) {
	t.Helper()
	b.watched = proxy.NewStream(proxy.Config{
		Conn:      b.conn,
		Kind:      proxy.Get,
		Authority: "bystander-0.many.svc.cluster.local:80",
	})
	t.Cleanup(b.watched.Close)
	must(t, b.watched.Open(t.Context()))
}

// check changes the first Service and waits for the change. It also requests a Service that no
// client has requested before.
func (b *bystanders) check(t *testing.T, turn int) {
	t.Helper()
	began := time.Now()
	must(t, b.bystander(0, 2+turn%2))
	want := fmt.Sprintf("10.9.0.%d:", 2+turn%2)
	must(t, b.watched.Until(t.Context(), patience, func() error {
		if got := fmt.Sprint(b.watched.Snapshot().Get.Addrs()); !strings.Contains(got, want) {
			return fmt.Errorf("the proxy has %s, want %s", got, want)
		}
		return nil
	}))
	b.changed = max(b.changed, time.Since(began))

	began = time.Now()
	if code := b.ask(
		t.Context(), t, b.conn, fmt.Sprintf("bystander-%d.many.svc.cluster.local:80", turn),
	); code != codes.OK {
		t.Fatalf("a new name: %v", code)
	}
	b.served = max(b.served, time.Since(began))
}
