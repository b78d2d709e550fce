package handover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"isthmus/e2e/cluster"
	"isthmus/e2e/kube"
	"isthmus/e2e/object"
	"isthmus/e2e/pulse"
)

const (
	namespace = "handover"
	// rhythm is the time between two changes.
	rhythm = 250 * time.Millisecond
)

// stay are the endpoints that are there all the time.
var stay = []netip.AddrPort{netip.MustParseAddrPort("10.1.0.1:8080"), netip.MustParseAddrPort("10.1.0.2:8080"), netip.MustParseAddrPort("10.1.0.3:8080")}

// numbered returns the endpoint that stands for a change: there is no other besides those that stay.
func numbered(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, byte(n / 250), byte(n%250 + 1)}), object.Port)
}

// number returns which change a set of endpoints shows; -1: none.
func number(addrs []netip.AddrPort) (n int) {
	n = -1
	for _, a := range addrs {
		if b := a.Addr().As4(); b[1] == 2 {
			n = max(n, int(b[2])*250+int(b[3])-1)
		}
	}
	return n
}

// world is a cluster in which endpoints change all the time.
type world struct {
	kubeconfig string
	client     *kube.Client
	pulse      pulse.Pulse

	mu      sync.Mutex
	changes []time.Time // when the writing of each began
	failed  error       // why there are no more
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server, err := cluster.Start(t.Context(), cluster.Config{Name: "west", Dir: t.TempDir(), Controllers: []string{"namespace", "serviceaccount"}})
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	client, err := kube.New("west", server.REST())
	must(t, err)
	t.Cleanup(client.Close)
	must(t, client.Apply(t.Context(), object.Namespace(object.LinkNamespace), object.Namespace(namespace), object.Service(namespace, "web")))
	w := &world{kubeconfig: server.Kubeconfig(), client: client}
	must(t, w.change(t.Context()))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { w.pulse.Run(ctx) })
	running.Go(func() { w.keepChanging(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		must(t, w.failed)
	})
	return w
}

// keepChanging makes changes until ctx ends. An API server of a busy machine may fail now and then, but not for a minute.
func (w *world) keepChanging(ctx context.Context) {
	tick := time.NewTicker(rhythm)
	defer tick.Stop()
	last := time.Now() // when all went well
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch err := w.change(ctx); {
		case err == nil:
			last = time.Now()
		case ctx.Err() == nil && time.Since(last) > time.Minute:
			w.mu.Lock()
			w.failed = errors.Join(w.failed, err)
			w.mu.Unlock()
			return
		}
	}
}

// change makes the next change.
func (w *world) change(ctx context.Context) error {
	w.mu.Lock()
	n := len(w.changes)
	w.mu.Unlock()
	slice := object.Slice(namespace, "web", "1")
	for _, a := range append(slices.Clone(stay), numbered(n)) {
		slice.Endpoints = append(slice.Endpoints, object.Endpoint(a.Addr().String()))
	}
	at := time.Now()
	_, err := kube.Put(ctx, w.client.DiscoveryV1().EndpointSlices(namespace), slice)
	if err != nil {
		return fmt.Errorf("change %d: %w", n, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = append(w.changes, at)
	return nil
}

// made returns when the changes were made: when their writing began.
func (w *world) made() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.changes)
}
