package handover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	discovery "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"isthmus/e2e/cluster"
	"isthmus/e2e/pulse"
	"isthmus/e2e/shop"
)

const (
	authority = "web.handover.svc.cluster.local:80"
	namespace = "handover"
	port      = 8080
	// rhythm is the time between two changes.
	rhythm  = 250 * time.Millisecond
	objects = `
apiVersion: v1
kind: Namespace
metadata: {name: linkerd}
---
apiVersion: v1
kind: Namespace
metadata: {name: handover}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: handover}
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
`
)

// stay are the endpoints that are there all the time.
var stay = []netip.AddrPort{netip.MustParseAddrPort("10.1.0.1:8080"), netip.MustParseAddrPort("10.1.0.2:8080"), netip.MustParseAddrPort("10.1.0.3:8080")}

// numbered returns the endpoint that stands for a change: there is no other besides those that stay.
func numbered(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, byte(n / 250), byte(n%250 + 1)}), port)
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
	slices     discovery.EndpointSliceInterface
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
	writer, err := shop.New("west", 1, server.REST())
	must(t, err)
	t.Cleanup(writer.Close)
	must(t, writer.Apply(t.Context(), strings.NewReader(objects)))
	config := server.REST()
	client, err := discovery.NewForConfig(config)
	must(t, err)
	w := &world{kubeconfig: server.Kubeconfig(), slices: client.EndpointSlices(namespace)}
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

// keepChanging makes changes until ctx ends.
func (w *world) keepChanging(ctx context.Context) {
	tick := time.NewTicker(rhythm)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := w.change(ctx); err != nil && ctx.Err() == nil {
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
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(port))}},
	}
	for _, a := range append(slices.Clone(stay), numbered(n)) {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{a.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	at := time.Now()
	_, err := w.slices.Update(ctx, slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = w.slices.Create(ctx, slice, metav1.CreateOptions{})
	}
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
