package election

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// leaseTimeout bounds one request about the Lease, so that one that hangs leaves time for another.
	leaseTimeout = 4 * time.Second
	// maxReleases is how often the release is tried, if others edit the Lease meanwhile.
	maxReleases = 3
)

// lock is the Lease, as client-go's elector reads and writes it. It ends the term as soon as the
// Lease is seen not to be ours, and notes when a renewal began. One goroutine at a time uses it.
type lock struct {
	// fixed
	c      Config
	leases coordinationclient.LeaseInterface
	term   *Term
	end    context.CancelCauseFunc // of the term

	lease   *coordinationv1.Lease // as last read or written; nil: there was none
	claimed bool                  // it is ours, or a write that had no answer may have made it so
	expiry  *time.Timer           // ends the term; nil: the Lease was never ours
}

var _ resourcelock.Interface = (*lock)(nil)

func newLock(c Config, term *Term, end context.CancelCauseFunc) *lock {
	return &lock{c: c, leases: c.Leases(c.Namespace), term: term, end: end}
}

// Get implements [resourcelock.Interface].
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, stop := context.WithTimeout(ctx, leaseTimeout)
	defer stop()
	lease, err := l.leases.Get(ctx, l.c.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		l.lease = nil
		l.lost(ErrDeleted)
		return nil, nil, err
	case err != nil:
		return nil, nil, l.failed(ctx, err)
	}
	record := l.saw(lease)
	if record.HolderIdentity != l.c.Identity {
		l.lost(ErrTaken)
	}
	raw, err := json.Marshal(record)
	return record, raw, err
}

// Create implements [resourcelock.Interface].
func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.c.Namespace, Name: l.c.Name}}
	return l.claim(ctx, lease, r, func(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
		return l.leases.Create(ctx, lease, metav1.CreateOptions{})
	})
}

// Update implements [resourcelock.Interface].
func (l *lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.lease == nil {
		return errors.New("the Lease has not been read yet")
	}
	return l.claim(ctx, l.lease.DeepCopy(), r, l.update)
}

func (l *lock) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return l.leases.Update(ctx, lease, metav1.UpdateOptions{})
}

type put func(context.Context, *coordinationv1.Lease) (*coordinationv1.Lease, error)

// claim takes or renews the Lease, unless the term has ended: then it is not taken again before the
// next election.
func (l *lock) claim(ctx context.Context, lease *coordinationv1.Lease, r resourcelock.LeaderElectionRecord, put put) error {
	if l.term.ctx.Err() != nil {
		return context.Cause(l.term.ctx)
	}
	began := time.Now() // others count from when they see it, which is later
	if err := l.write(ctx, lease, r, put); err != nil {
		l.claimed = l.claimed || !refused(err)
		return err
	}
	until := began.Add(renewDeadline)
	l.claimed = true
	l.term.until.Store(&until)
	if l.expiry == nil {
		l.expiry = time.AfterFunc(time.Until(until), func() { l.end(ErrNotRenewed) })
	} else {
		l.expiry.Reset(time.Until(until))
	}
	return nil
}

// refused reports whether a write was surely not carried out, since somebody else was faster.
func refused(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// write writes the Lease, if it is as it was last seen.
func (l *lock) write(ctx context.Context, lease *coordinationv1.Lease, r resourcelock.LeaderElectionRecord, put put) error {
	ctx, stop := context.WithTimeout(ctx, leaseTimeout)
	defer stop()
	lease.Spec = resourcelock.LeaderElectionRecordToLeaseSpec(&r)
	lease, err := put(ctx, lease)
	if err != nil {
		return l.failed(ctx, err)
	}
	l.saw(lease)
	return nil
}

// release gives the Lease up if it is ours, so that others need not wait until it expires. It
// takes renewDeadline at most. The elector's own release would take it from another holder that
// has not been seen yet.
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
		err = l.write(ctx, l.lease.DeepCopy(), resourcelock.LeaderElectionRecord{
			LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: r.LeaderTransitions,
		}, l.update)
		if !apierrors.IsConflict(err) {
			return
		}
	}
}

// saw stores the Lease as it is.
func (l *lock) saw(lease *coordinationv1.Lease) *resourcelock.LeaderElectionRecord {
	l.lease = lease
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	l.c.Observe(record.HolderIdentity, nil)
	return record
}

// lost ends the term, if it has begun.
func (l *lock) lost(why error) {
	if l.expiry != nil {
		l.end(why)
	}
}

// failed observes an error, unless the request was cancelled or somebody else was faster.
func (l *lock) failed(ctx context.Context, err error) error {
	if !refused(err) && !errors.Is(ctx.Err(), context.Canceled) {
		l.c.Observe("", fmt.Errorf("lease %s/%s: %w", l.c.Namespace, l.c.Name, err))
	}
	return err
}

// RecordEvent implements [resourcelock.Interface]: no events are written.
func (l *lock) RecordEvent(string) {}

// Identity implements [resourcelock.Interface].
func (l *lock) Identity() string { return l.c.Identity }

// Describe implements [resourcelock.Interface].
func (l *lock) Describe() string { return l.c.Namespace + "/" + l.c.Name }
