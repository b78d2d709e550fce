package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// TestHandover runs proxies that find two replicas through DNS, and stops one replica with SIGTERM.
// That replica must serve all its proxies and all changes for the time in its flags, and then the
// proxies must move to the other replica. At that time, half of the proxies know only the other
// replica, and a few know only the first one. The command `make nodes` repeats this with real nodes
// and DNS. A third replica must close connections older than its limit.
func TestHandover(t *testing.T) {
	t.Parallel()
	const delay, drain = 3 * time.Second, 2 * time.Second
	server := startClusters(t, []string{"namespace"}, "west")[0]
	west := client(t, server)
	must(
		t,
		west.Apply(t.Context(), kube.Namespace(kube.LinkNamespace), kube.Namespace("ns"), kube.Service("ns", "web")),
	)
	start := func(name string, flags ...string) *harness.Replica {
		return startGateway(t, harness.ReplicaConfig{Kubeconfig: server.Kubeconfig(), Hostname: name, Args: flags})
	}
	goes := start("goes", fmt.Sprintf("-shutdown-delay=%v", delay), fmt.Sprintf("-drain=%v", drain))
	stays, ages := start("stays"), start("ages", "-max-connection-age=2s")
	var left atomic.Bool // whether DNS no longer contains the first replica
	crowd := runSubscribers(t, 16, func(i int) []string {
		if i%2 == 1 && left.Load() {
			return []string{stays.Addr()}
		}
		return []string{goes.Addr(), stays.Addr()}
	})
	at := func(g *harness.Replica) func(int) []string { return func(int) []string { return []string{g.Addr()} } }
	loyal := runSubscribers(t, 4, at(goes)) // without proxies, the replica would end early
	moves := runSubscribers(t, 1, at(ages))[0]
	always := netip.MustParseAddrPort("10.1.0.1:8080")
	change := func(n byte, proxies ...*proxy.Subscriber) { // and wait until the proxies have received the change
		t.Helper()
		moving := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, 0, n}), kube.Port)
		_, err := kube.Put(t.Context(), west.DiscoveryV1().EndpointSlices("ns"),
			kube.Slice("ns", "web", "1", kube.Endpoint(always.Addr().String()), kube.Endpoint(moving.Addr().String())))
		must(t, err)
		await(t, "all proxies have a change", func() error {
			for i, one := range proxies {
				if now := one.Stream().Snapshot(); now.Phase != proxy.Open ||
					!slices.Equal(now.Get.Addrs(), []netip.AddrPort{always, moving}) {
					return fmt.Errorf("proxy %d has %v", i, now.Get.Addrs())
				}
			}
			return nil
		})
	}
	all := slices.Concat(crowd, loyal)
	change(1, all...)
	for _, one := range all {
		one.Stream().Mark()
	}

	began := time.Now()
	must(t, goes.Signal(syscall.SIGTERM))
	left.Store(true)
	change(2, crowd...)
	await(t, "streams are ended", func() error {
		if !slices.ContainsFunc(all, func(one *proxy.Subscriber) bool { return len(one.Openings()) > 1 }) {
			return errors.New("all proxies have their first stream")
		}
		return nil
	})
	change(3, crowd...)
	<-goes.Exited()
	if took := time.Since(began); took < delay+drain {
		t.Errorf("the replica ended after %v", took)
	}
	change(4, crowd...)
	moved := 0
	for i, one := range all {
		if err := one.Stream().Flapped(always); err != nil {
			t.Errorf("proxy %d: %v", i, err)
		}
		if f := one.Stream().Status().Faults; len(f) > 0 {
			t.Errorf("proxy %d: faults %q", i, f)
		}
		for _, r := range one.Refusals() {
			if r.At.Before(began.Add(delay + drain)) {
				t.Errorf("proxy %d was rejected after %v: %v", i, r.At.Sub(began), r.Err)
			}
		}
		openings := one.Openings()
		if at := openings[len(openings)-1].Addr; i < len(crowd) && at != stays.Addr() {
			t.Errorf("proxy %d is at %s", i, at)
		}
		for _, o := range openings[1:] {
			if moved++; status.Code(o.Why) != codes.Unavailable || o.Lost.Sub(began) < delay {
				t.Errorf("proxy %d lost its stream after %v: %v", i, o.Lost.Sub(began), o.Why)
			}
		}
		if len(openings) > 3 {
			t.Errorf("proxy %d lost %d streams", i, len(openings)-1)
		}
	}
	if moved == 0 {
		t.Error("no proxy used the stopped replica")
	}
	await(t, "a stream moves to a new connection", func() error {
		if n := len(moves.Openings()); n < 2 {
			return fmt.Errorf("the proxy has had %d streams", n)
		}
		return nil
	})
}

// runSubscribers runs proxies until the test ends, each with its own list of known addresses.
func runSubscribers(t *testing.T, n int, known func(i int) []string) (all []*proxy.Subscriber) {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	for i := range n {
		one := proxy.NewSubscriber(proxy.SubscriberConfig{
			Known: func() []string { return known(i) }, Authority: kube.Authority("ns", "web"), MayBeLate: true,
		})
		all = append(all, one)
		running.Go(func() { one.Run(ctx) })
	}
	return all
}
