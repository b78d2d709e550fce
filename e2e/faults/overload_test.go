package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"isthmus/e2e/harness"
	"isthmus/e2e/proxy"
)

// TestOverload lets proxies misbehave while the endpoints of a federated Service change
// continuously. One well-behaved proxy must not miss any change.
func TestOverload(t *testing.T) {
	inTurn(t)
	w := newWorld(t, []string{"-log-level=info", "-stream-stall-timeout=3s"})
	s := w.newStage(t, "overload", w.north)
	t.Run("reconnects", func(t *testing.T) { reconnects(t, s) })
	t.Run("one-connection", func(t *testing.T) { oneConnection(t, s) })
	t.Run("never-read", func(t *testing.T) { neverRead(t, s) })
	t.Run("host-hangs", func(t *testing.T) { hostThatHangs(t, s) })
	s.churn.finish(s)
	s.converge()
	s.verify()
	await(t, recovery, func() error { return s.streams(t.Context(), s.open()) })
}

// reconnects checks that all proxies are served when they reconnect at once, even if they have
// already disconnected twice while they were reconnecting.
func reconnects(t *testing.T, s *stage) {
	c := crowd{
		addr:    s.gateway.Addr(),
		request: request("all.overload.svc.cluster.local:80", ""),
		size:    either(1000, 10_000),
	}
	for range 2 {
		arrivals := c.come(t.Context())
		for range c.size / 4 {
			<-arrivals
		}
		c.leave()
	}
	arrivals := c.come(t.Context())
	worst, err := c.served(arrivals, time.Minute)
	defer c.leave()
	must(t, err)
	t.Logf("the last of %d proxies was served after %v", c.size, worst.Round(time.Millisecond))
	await(t, recovery, func() error { return s.streams(t.Context(), c.size+s.open()) })
}

// oneConnection checks that 1,000 streams on one connection are served and leave nothing behind.
func oneConnection(t *testing.T, s *stage) {
	const size = 1000
	conn, err := proxy.Dial(s.gateway.Addr())
	must(t, err)
	defer conn.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var all sync.WaitGroup
	for range size {
		all.Go(func() {
			stream, err := get(ctx, conn, request("all.overload.svc.cluster.local:80", ""))
			if err != nil {
				t.Error(err)
				return
			}
			var message []byte
			for range 5 { // the first message and some changes
				if err := stream.RecvMsg(&message); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	conn.Close()
	await(t, recovery, func() error { return s.streams(t.Context(), s.open()) })
}

// neverRead checks that streams whose proxies never read are ended and counted after the stall
// timeout.
func neverRead(t *testing.T, s *stage) {
	size := either(200, 2000)
	s.large(t)
	streams := make([]grpc.ClientStream, size)
	for i := range size {
		conn, err := proxy.Dial(s.gateway.Addr())
		must(t, err)
		defer conn.Close()
		streams[i], err = get(t.Context(), conn, request("large.overload.svc.cluster.local:80", ""))
		must(t, err)
	}
	const overflow = `endpoint_updates_queue_overflow\{service="large.*`
	turn := 0
	await(t, 2*time.Minute, func() error {
		// The first message never blocks. More messages are needed until all buffers between the
		// server and the client are full.
		turn++
		if _, err := s.west.slice(
			t.Context(),
			s.name,
			"large",
			"0",
			block(byte(200+20*(turn%2)), largeSlice)...,
		); err != nil {
			return err
		}
		n, err := s.metric(t.Context(), overflow)
		if err == nil && int(n) != size {
			err = fmt.Errorf("%v of %d streams ended", n, size)
		}
		return err
	})
	await(t, recovery, func() error { return s.streams(t.Context(), s.open()) })
	for _, stream := range streams {
		var message []byte
		err := stream.RecvMsg(&message)
		for err == nil {
			err = stream.RecvMsg(&message)
		}
		if grpcstatus.Code(err) != codes.Unavailable {
			t.Fatalf("a stream ended with %v", err)
		}
	}
}

const largeSlice = 250 // endpoints per slice

// hostThatHangs checks that streams on a hanging connection do not delay other streams, and
// continue when the connection recovers.
func hostThatHangs(t *testing.T, s *stage) {
	p, err := harness.StartFaultProxy(s.gateway.Addr())
	must(t, err)
	defer func() { must(t, p.Close()) }()
	conn, err := proxy.Dial(p.Addr())
	must(t, err)
	defer conn.Close()
	var hanging []*proxy.Stream
	for range 100 {
		one := proxy.NewStream(proxy.Config{
			Conn:      conn,
			Kind:      proxy.Get,
			Authority: "all.overload.svc.cluster.local:80",
			MayBeLate: !*long,
		})
		defer one.Close()
		must(t, one.Open(t.Context()))
		hanging = append(hanging, one)
	}
	has := func(turn int) func() error {
		return func() error {
			for _, one := range hanging {
				now := one.Snapshot()
				if !now.Get.Has(s.near.moving(turn)[1]) && !now.Get.Has(s.near.moving(turn + 1)[1]) {
					return fmt.Errorf("%v (%v): %v", now.Phase, now.Err, now.Get.Addrs())
				}
			}
			return nil
		}
	}
	await(t, recovery, func() error { return has(s.near.turns())() })
	must(t, p.Set(harness.Silent))
	must(t, s.turns(t.Context(), 10))
	must(t, p.Set(harness.FaultMode{}))
	await(t, recovery, func() error { return has(s.near.turns())() })
	for _, one := range hanging {
		if faults := one.Snapshot().Faults; len(faults) > 0 {
			t.Error(faults)
		}
	}
}
