package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// leaseTimeout limits the duration of a request for the Lease, so that a hanging request leaves
	// time for another request.
	leaseTimeout = 4 * time.Second
	// maxReleases is the maximum number of attempts to release a Lease. An attempt is repeated if
	// another client has changed the Lease between the read and the write.
	maxReleases = 3
)

// lock extends client-go's lock. The lock gives up leadership as soon as this replica no longer
// holds the Lease, and records when each renewal began. A lock is not safe for concurrent use.
type lock struct {
	resourcelock.LeaseLock
	// fixed after construction
	c          Config
	leadership *Leadership
	end        context.CancelCauseFunc // ends the leadership

	claimed bool        // we hold the Lease, or may hold it after an unanswered write
	expiry  *time.Timer // ends the leadership; nil if we never held the Lease
}

type clients func(namespace string) coordinationv1.LeaseInterface

func (c clients) Leases(namespace string) coordinationv1.LeaseInterface { return c(namespace) }

func newLock(c Config, leadership *Leadership, end context.CancelCauseFunc) *lock {
	return &lock{c: c, leadership: leadership, end: end, LeaseLock: resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}, Client: clients(c.Leases),
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.Identity},
	}}
}

func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, stop := context.WithTimeout(ctx, leaseTimeout)
	defer stop()
	record, raw, err := l.LeaseLock.Get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		l.lost(ErrDeleted)
		return nil, nil, err
	case err != nil:
		return nil, nil, l.failed(ctx, err)
	}
	l.c.Observe(record.HolderIdentity, nil)
	if record.HolderIdentity != l.c.Identity {
		l.lost(ErrTaken)
	}
	return record, raw, nil
}

func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.claim(ctx, r, l.LeaseLock.Create)
}

func (l *lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.claim(ctx, r, l.LeaseLock.Update)
}

type put func(context.Context, resourcelock.LeaderElectionRecord) error

// claim acquires or renews the Lease. Once leadership has ended, the result is an error, so that
// the Lease is not acquired again before the next election.
func (l *lock) claim(ctx context.Context, r resourcelock.LeaderElectionRecord, put put) error {
	if l.leadership.ctx.Err() != nil {
		return context.Cause(l.leadership.ctx)
	}
	began := time.Now() // other replicas count from a later time, when they see the renewal
	if err := l.write(ctx, r, put); err != nil {
		l.claimed = l.claimed || !refused(err)
		return err
	}
	until := began.Add(renewDeadline)
	l.claimed = true
	l.leadership.until.Store(&until)
	if l.expiry == nil {
		l.expiry = time.AfterFunc(time.Until(until), func() { l.end(ErrNotRenewed) })
	} else {
		l.expiry.Reset(time.Until(until))
	}
	return nil
}

// refused reports whether the API server rejected a write because another writer was faster.
func refused(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

func (l *lock) write(ctx context.Context, r resourcelock.LeaderElectionRecord, put put) error {
	ctx, stop := context.WithTimeout(ctx, leaseTimeout)
	defer stop()
	if err := put(ctx, r); err != nil {
		return l.failed(ctx, err)
	}
	l.c.Observe(r.HolderIdentity, nil)
	return nil
}

// release releases the Lease if this replica holds it, so that other replicas do not have to wait
// until the Lease expires. Releasing the Lease takes at most renewDeadline. The elector of
// client-go has its own release function, which could take the Lease away from a holder that the
// elector has not seen yet.
func (l *lock) release(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, renewDeadline)
	defer stop()
	if l.expiry != nil {
		l.expiry.Stop()
	}
	for range maxReleases {
		if !l.claimed {
			return
		}
		r, _, err := l.Get(ctx)
		if err != nil || r.HolderIdentity != l.c.Identity {
			return
		}
		now := metav1.Now()
		err = l.write(ctx, resourcelock.LeaderElectionRecord{
			LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: r.LeaderTransitions,
		}, l.LeaseLock.Update)
		if !apierrors.IsConflict(err) {
			return
		}
	}
}

func (l *lock) lost(why error) {
	if l.expiry != nil {
		l.end(why)
	}
}

// Errors are reported to Observe, unless the request was canceled or another writer was faster.
func (l *lock) failed(ctx context.Context, err error) error {
	if !refused(err) && !errors.Is(ctx.Err(), context.Canceled) {
		l.c.Observe("", fmt.Errorf("lease %s/%s: %w", l.c.Namespace, l.c.Name, err))
	}
	return err
}
