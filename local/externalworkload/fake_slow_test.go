package externalworkload

import (
	"context"
	"sync"
	"testing/synctest"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"
)

// slowness makes updates of slices hang.
type slowness struct {
	mu      sync.Mutex
	release chan struct{} // ends the wait; nil: they don't hang
	// takes is how long a slice's creation takes; nil: no time.
	takes   func(*discoveryv1.EndpointSlice) time.Duration
	begun   int
	aborted int // by their context
}

func (s *slowness) wait(ctx context.Context) error {
	s.mu.Lock()
	release := s.release
	s.begun++
	s.mu.Unlock()
	if release == nil {
		return nil
	}
	select {
	case <-release:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.aborted++
		return ctx.Err()
	}
}

func (s *slowness) hang() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(chan struct{})
	s.begun, s.aborted, s.release = 0, 0, held
	return sync.OnceFunc(func() { close(held) })
}

func (s *slowness) counts() (begun, aborted int) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun, s.aborted
}

type slowClient struct {
	*fake.Clientset
	slow *slowness
}

func (c slowClient) DiscoveryV1() discoveryv1client.DiscoveryV1Interface {
	return slowDiscovery{c.Clientset.DiscoveryV1(), c.slow}
}

type slowDiscovery struct {
	discoveryv1client.DiscoveryV1Interface
	slow *slowness
}

func (d slowDiscovery) EndpointSlices(namespace string) discoveryv1client.EndpointSliceInterface {
	return slowSlices{d.DiscoveryV1Interface.EndpointSlices(namespace), d.slow}
}

type slowSlices struct {
	discoveryv1client.EndpointSliceInterface
	slow *slowness
}

func (s slowSlices) Create(ctx context.Context, o *discoveryv1.EndpointSlice, opts metav1.CreateOptions) (*discoveryv1.EndpointSlice, error) {
	if s.slow.takes != nil {
		select {
		case <-time.After(s.slow.takes(o)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.EndpointSliceInterface.Create(ctx, o, opts)
}

func (s slowSlices) Update(ctx context.Context, o *discoveryv1.EndpointSlice, opts metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	if err := s.slow.wait(ctx); err != nil {
		return nil, err
	}
	return s.EndpointSliceInterface.Update(ctx, o, opts)
}
