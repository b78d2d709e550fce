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

	"isthmus/clusterstore/typed"
	"isthmus/clusterstore/typed/typedtest"
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

// clients are those of a fake, with slices that are slow.
func (s *slowness) clients(api *fake.Clientset) *typed.Clients {
	c := typedtest.Clients(api)
	c.EndpointSlices = func(namespace string) typed.Resource[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList] {
		return slowSlices{api.DiscoveryV1().EndpointSlices(namespace), s}
	}
	return c
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
