package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"isthmus/clusterstore/typed"
)

const (
	leaseDuration = 30 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	// retryJitter is how much longer than retryPeriod a replica waits at most before it
	// tries to take the Lease again, as a factor of that: replicas begin at once, and need
	// not stay together.
	retryJitter = 1.2
	// maxReleases is how often the Lease is released anew if others edit it meanwhile.
	maxReleases = 3
)

var (
	errNotRenewed = fmt.Errorf("the Lease could not be renewed for %v", renewDeadline)
	errTaken      = errors.New("the Lease has another holder")
	errDeleted    = errors.New("the Lease was deleted")
)

// election is one election, as one replica takes part in it. What is in the Lease, and when
// it may be taken, is as in client-go's package leaderelection, which Linkerd's controller
// uses. That package comes with the types of all API groups (docs/performance.md). Times in
// the Lease are for readers only: each replica counts from when it saw the Lease change, so
// that their clocks may differ.
type election struct {
	// fixed
	leases              typed.Resource[*coordinationv1.Lease, *coordinationv1.LeaseList]
	namespace, identity string
	observe             func(holder string, err error)

	lease *coordinationv1.Lease     // as last read or written; nil: it was not there
	since time.Time                 // when its contents were first seen
	ours  bool                      // it is, or a write without answer may have made it so
	until atomic.Pointer[time.Time] // how long a term may last, unless it is renewed; nil: no term has begun
}

func newElection(client *typed.Clients, namespace, identity string, observe func(holder string, err error)) *election {
	return &election{leases: client.Leases(namespace), namespace: namespace, identity: identity, observe: observe}
}

// run leads for one term, if elected before ctx ends, and returns once the Lease is
// released, or lost. What lead does ends with the term. It may take a while to end with
// ctx: until then, the Lease is renewed.
func (e *election) run(ctx context.Context, lead func(term context.Context)) {
	beyond := context.WithoutCancel(ctx) // the election ends with a release, after which another replica leads
	defer e.release(beyond)
	if !e.acquire(ctx) {
		return
	}
	term, end := context.WithCancelCause(beyond)
	defer end(nil)
	keeping, stop := context.WithCancel(beyond)
	var kept sync.WaitGroup
	kept.Go(func() { e.keep(keeping, end) })
	lead(term)
	stop()
	kept.Wait()
}

// acquire returns true once this replica holds the Lease, or false when ctx ends.
func (e *election) acquire(ctx context.Context) bool {
	for !e.take(ctx) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait.Jitter(retryPeriod, retryJitter)):
		}
	}
	return true
}

// take takes the Lease if it is free.
func (e *election) take(ctx context.Context) bool {
	now := time.Now() // before it is read, which may take long
	if err := e.read(ctx); err != nil && !apierrors.IsNotFound(err) || !e.free(now) {
		return false
	}
	return e.write(ctx, e.claim()) == nil
}

// free reports whether this replica may take the Lease: none is there, it has no holder or
// this one, or for as long as it is good nobody has renewed it.
func (e *election) free(now time.Time) bool {
	if e.lease == nil {
		return true
	}
	good := time.Duration(ptr.Deref(e.lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	holder := holderOf(e.lease)
	return holder == "" || holder == e.identity || !e.since.Add(good).After(now)
}

// keep renews the Lease until ctx ends. It ends the term at once when the Lease is found to
// be no longer ours, and when the last renewal was too long ago.
func (e *election) keep(ctx context.Context, end context.CancelCauseFunc) {
	expiry := time.AfterFunc(time.Until(*e.until.Load()), func() { end(errNotRenewed) })
	defer expiry.Stop()
	next := time.NewTicker(retryPeriod)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		if why := e.renew(ctx); why != nil {
			end(why)
			return
		}
		expiry.Reset(time.Until(*e.until.Load()))
	}
}

// renew renews the Lease, as it was last seen or else as it is. It returns why the Lease is
// not ours, if that is known.
func (e *election) renew(ctx context.Context) error {
	if e.write(ctx, e.claim()) == nil {
		return nil
	}
	switch err := e.read(ctx); {
	case apierrors.IsNotFound(err):
		return errDeleted
	case err != nil:
		return nil // not known
	case holderOf(e.lease) != e.identity:
		return errTaken
	}
	_ = e.write(ctx, e.claim()) // it is renewed again soon
	return nil
}

// held reports whether the Lease is still ours by the clock. After the process has
// stood still, the clock shows that before the timer fires.
func (e *election) held() bool {
	until := e.until.Load()
	return until != nil && time.Now().Before(*until)
}

// release gives the Lease up if it is ours, so that others need not wait until it expires.
// It takes renewDeadline at most.
func (e *election) release(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, renewDeadline)
	defer stop()
	for range maxReleases {
		if !e.ours || e.read(ctx) != nil || !e.ours {
			return
		}
		now := metav1.NowMicro()
		if err := e.write(ctx, coordinationv1.LeaseSpec{
			HolderIdentity: new(""), LeaseDurationSeconds: new(int32(1)), AcquireTime: &now, RenewTime: &now,
			LeaseTransitions: e.lease.Spec.LeaseTransitions,
		}); !apierrors.IsConflict(err) {
			return
		}
	}
}
