package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"isthmus/e2e/gateway"
	"isthmus/e2e/kube"
	"isthmus/e2e/object"
	"isthmus/e2e/proxy"
)

// TestHandover: proxies find two gateways by DNS, where one leaves as it gets SIGTERM. It serves all of them, and all changes, for as long as
// its flags say. Then they find the other. Half of them know by then that there is only that one. `make nodes` does so with real nodes and DNS.
func TestHandover(t *testing.T) {
	t.Parallel()
	const delay, drain = 3 * time.Second, 2 * time.Second
	server := startClusters(t, []string{"namespace"}, "west")[0]
	west := client(t, server)
	must(t, west.Apply(t.Context(), object.Namespace(object.LinkNamespace), object.Namespace("ns"), object.Service("ns", "web")))
	start := func(name string) *gateway.Gateway {
		return startGateway(t, gateway.Config{Kubeconfig: server.Kubeconfig(), Hostname: name, Args: []string{
			fmt.Sprintf("-shutdown-delay=%v", delay), fmt.Sprintf("-drain=%v", drain)}})
	}
	goes, stays := start("goes"), start("stays")
	records := proxy.NewRecords(goes.Addr(), stays.Addr())
	crowd := runSubscribers(t, 16, func(i int) proxy.SubscriberConfig {
		ttl := time.Second
		if i%2 == 0 {
			ttl = time.Minute
		}
		return proxy.SubscriberConfig{Records: records, TTL: ttl, Authority: object.Authority("ns", "web")}
	})
	always := netip.MustParseAddrPort("10.1.0.1:8080")
	change := func(n byte) { // and wait until all proxies have it
		t.Helper()
		moving := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, 0, n}), object.Port)
		_, err := kube.Put(t.Context(), west.DiscoveryV1().EndpointSlices("ns"),
			object.Slice("ns", "web", "1", object.Endpoint(always.Addr().String()), object.Endpoint(moving.Addr().String())))
		must(t, err)
		await(t, "all proxies have a change", func() error {
			for i, one := range crowd {
				if now := one.Stream().Snapshot(); now.Phase != proxy.Open || !slices.Equal(now.Get.Addrs(), []netip.AddrPort{always, moving}) {
					return fmt.Errorf("proxy %d has %v", i, now.Get.Addrs())
				}
			}
			return nil
		})
	}
	change(1)
	for _, one := range crowd {
		one.Stream().Mark()
	}

	began := time.Now()
	must(t, goes.Signal(syscall.SIGTERM))
	records.Set(stays.Addr())
	n := byte(2)
	for going := true; going; n++ {
		select {
		case <-goes.Exited():
			going = false
		case <-time.After(100 * time.Millisecond):
		}
		change(n)
	}
	if n < 10 || time.Since(began) < delay+drain {
		t.Errorf("after %v and %d changes it had ended", time.Since(began), n)
	}
	moved := 0
	for i, one := range crowd {
		if err := one.Stream().Flapped(always); err != nil {
			t.Errorf("proxy %d: %v", i, err)
		}
		if f := one.Stream().Status().Faults; len(f) > 0 {
			t.Errorf("proxy %d: faults %q", i, f)
		}
		for _, r := range one.Refusals() {
			if r.At.Before(began.Add(delay + drain)) {
				t.Errorf("proxy %d was refused after %v: %v", i, r.At.Sub(began), r.Err)
			}
		}
		all := one.Openings()
		if at := all[len(all)-1].Addr; at != stays.Addr() {
			t.Errorf("proxy %d is at %s", i, at)
		}
		for _, o := range all[1:] {
			if moved++; status.Code(o.Why) != codes.Unavailable || o.Lost.Sub(began) < delay {
				t.Errorf("proxy %d lost its stream after %v by %v", i, o.Lost.Sub(began), o.Why)
			}
		}
		if len(all) > 3 {
			t.Errorf("proxy %d was sent away %d times", i, len(all)-1)
		}
	}
	if moved == 0 {
		t.Error("no proxy was at the gateway that went")
	}
}

// runSubscribers runs proxies until the test ends.
func runSubscribers(t *testing.T, n int, config func(i int) proxy.SubscriberConfig) (all []*proxy.Subscriber) {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	for i := range n {
		one := proxy.NewSubscriber(config(i))
		all = append(all, one)
		running.Go(func() { one.Run(ctx) })
	}
	return all
}
