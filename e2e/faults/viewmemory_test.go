package faults

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"isthmus/e2e/harness"
	"isthmus/e2e/proxy"
)

// TestViewMemory: a client asks for ever more of what nobody else asks for, until the memory of views is used up.
// Those who are served go on to have every change, clients of other addresses are served, and all is served again once that client
// has gone.
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
		t.Errorf("%d streams of names that nobody shares are served, and %d refused", served, refused)
	}
	if got := m.metric(t, "isthmus_streams_refused_total"); got != float64(refused) {
		t.Errorf("%v calls are counted as refused, of %d", got, refused)
	}
	m.changes(t) // fails unless the proxy that was there before has each of them
	other := dialFrom(t, m.gateway.Addr(), net.IPv4(127, 0, 0, 2))
	for _, name := range []string{"web.many.svc.cluster.local:80", name(20_000)} {
		if code := m.ask(ctx, t, other, name); code != codes.OK {
			t.Errorf("another client that asks for %s: %v", name, code)
		}
	}
	if got := m.metric(t, "isthmus_streams"); got != float64(served+3) {
		t.Errorf("%v streams are open, of %d", got, served+3)
	}
	leave()
	await(t, patience, func() error {
		if code := m.ask(t.Context(), t, conn, name(30_000)); code != codes.OK {
			return fmt.Errorf("something new, after the client has gone: %v", code)
		}
		return nil
	})
}

// ask opens a Get stream that stays open until ctx ends, and returns how it begins.
func (m *multitude) ask(ctx context.Context, t *testing.T, conn *grpc.ClientConn, authority string) codes.Code {
	t.Helper()
	// It is read no further, which is enough for a few small messages.
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

// metric returns the sum of the series of a name.
func (m *multitude) metric(t *testing.T, name string) float64 {
	t.Helper()
	samples, err := harness.ReadMetrics(t.Context(), m.gateway.MetricsAddr())
	must(t, err)
	sum, _ := harness.SumSamples(samples, regexp.MustCompile("^"+name+"$"))
	return sum
}
