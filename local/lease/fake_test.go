package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

const leaseName = "writer"

var errAway = errors.New("no answer")

// leaseAPI is an API server with one Lease. leaseAPI rejects writes of older versions of the Lease.
type leaseAPI struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease // nil if the Lease does not exist
	version int
	writes  int                                 // number of executed writes
	changed func(was, is *coordinationv1.Lease) // called before the Lease is replaced
}

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (a *leaseAPI) get() (*coordinationv1.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lease == nil {
		return nil, apierrors.NewNotFound(leaseResource, leaseName)
	}
	return a.lease.DeepCopy(), nil
}

func (a *leaseAPI) create(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lease != nil {
		return nil, apierrors.NewAlreadyExists(leaseResource, leaseName)
	}
	return a.store(l), nil
}

func (a *leaseAPI) update(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.lease == nil:
		return nil, apierrors.NewNotFound(leaseResource, leaseName)
	case a.lease.ResourceVersion != l.ResourceVersion:
		return nil, apierrors.NewConflict(leaseResource, leaseName, errAway)
	}
	return a.store(l), nil
}

func (a *leaseAPI) store(l *coordinationv1.Lease) *coordinationv1.Lease {
	a.version++
	a.writes++
	l = l.DeepCopy()
	l.ResourceVersion = strconv.Itoa(a.version)
	if a.changed != nil {
		a.changed(a.lease, l)
	}
	a.lease = l
	return l.DeepCopy()
}

// edit changes the Lease like another client, and creates it if it does not exist.
func (a *leaseAPI) edit(f func(*coordinationv1.Lease)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "linkerd", Name: leaseName}}
	if a.lease != nil {
		l = a.lease.DeepCopy()
	}
	f(l)
	a.store(l)
}

func (a *leaseAPI) remove() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lease = nil
}

// written returns the number of executed writes.
func (a *leaseAPI) written() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writes
}

func (a *leaseAPI) spec() coordinationv1.LeaseSpec {
	l, err := a.get()
	if err != nil {
		return coordinationv1.LeaseSpec{}
	}
	return l.Spec
}

// leaseClient is one replica's client for a leaseAPI.
type leaseClient struct {
	coordinationclient.LeaseInterface // nil
	api                               *leaseAPI
	skew                              time.Duration // of the replica's clock, visible in the Lease

	mu  sync.Mutex
	way way // of all requests; if nil, requests are executed normally
}

// way executes a request by calling do, fails it, or both.
type way func(ctx context.Context, do func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error)

func (c *leaseClient) setWay(w way) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.way = w
}

func (c *leaseClient) do(ctx context.Context, do func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	w := c.way
	c.mu.Unlock()
	if w == nil {
		return do()
	}
	return w(ctx, do)
}

func (c *leaseClient) Get(ctx context.Context, _ string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return c.do(ctx, c.api.get)
}

func (c *leaseClient) Create(
	ctx context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	l = c.dated(l)
	return c.do(ctx, func() (*coordinationv1.Lease, error) { return c.api.create(l) })
}

func (c *leaseClient) Update(
	ctx context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	l = c.dated(l)
	return c.do(ctx, func() (*coordinationv1.Lease, error) { return c.api.update(l) })
}

// dated returns a Lease whose renewal time is shifted by the skew of the replica's clock.
func (c *leaseClient) dated(l *coordinationv1.Lease) *coordinationv1.Lease {
	l = l.DeepCopy()
	l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(l.Spec.RenewTime.Add(c.skew)))
	return l
}

// config returns the configuration of a replica's elections.
func (c *leaseClient) config(identity string) Config {
	return Config{
		Leases:    func(string) coordinationclient.LeaseInterface { return c },
		Namespace: "linkerd", Name: leaseName, Identity: identity, Observe: func(string, error) {},
	}
}

// unreliable returns a way that delays requests while faults returns true. Some requests fail, lose
// their response, or are executed after their context has ended.
func unreliable(random *rand.Rand, faults func() bool) way {
	var mu sync.Mutex
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	pause := func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	return func(ctx context.Context, do func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
		if err := pause(ctx, time.Duration(roll(200))*time.Millisecond); err != nil || !faults() {
			if err != nil {
				return nil, err
			}
			return do()
		}
		switch roll(8) {
		case 0: // rejected
			return nil, errAway
		case 1: // executed, but the response is lost
			_, _ = do()
			return nil, errAway
		case 2: // hangs
			<-ctx.Done()
			return nil, ctx.Err()
		case 3: // executed late
			time.AfterFunc(time.Duration(roll(20_000))*time.Millisecond, func() { _, _ = do() })
			<-ctx.Done()
			return nil, ctx.Err()
		case 4: // the response is late
			l, err := do()
			if late := pause(ctx, time.Duration(roll(5000))*time.Millisecond); late != nil {
				return nil, late
			}
			return l, err
		}
		return do()
	}
}
