package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	leaseName     = "linkerd-destination-endpoint-write"
	leaseDuration = 30 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	// leaseTimeout bounds one request about the Lease, so that one that hangs
	// leaves time for another.
	leaseTimeout = 4 * time.Second
)

var (
	errNotRenewed = fmt.Errorf("the Lease could not be renewed for %v", renewDeadline)
	errTaken      = errors.New("the Lease has another holder")
	errDeleted    = errors.New("the Lease was deleted")
)

// lock is the Lease as one election uses it. It tells what it sees, and it ends
// the term at once when the Lease is not ours any more: the elector itself goes on
// trying to renew it for a while, and to release it, before it says so.
type lock struct {
	*resourcelock.LeaseLock
	saw    func(holder string, err error)
	end    context.CancelCauseFunc // of the term
	expiry *time.Timer             // ends the term; nil: we have not held the Lease yet
}

func newLock(client coordinationv1client.LeasesGetter, namespace, identity string) *lock {
	return &lock{LeaseLock: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}}
}

// Get implements resourcelock.Interface.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, stop := context.WithTimeout(ctx, leaseTimeout)
	defer stop()
	record, raw, err := l.LeaseLock.Get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		l.lost(errDeleted)
	case err != nil:
		l.failed(ctx, err)
	default:
		l.saw(record.HolderIdentity, nil)
		if record.HolderIdentity != l.Identity() {
			l.lost(errTaken)
		}
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.LeaseLock.Create)
}

// Update implements resourcelock.Interface.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.LeaseLock.Update)
}

// write makes a record the Lease's. One without a holder releases it.
func (l *lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, do func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	ctx, stop := context.WithTimeout(ctx, leaseTimeout)
	defer stop()
	began := time.Now() // the others count from when the server has it, which is later
	if err := do(ctx, record); err != nil {
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) { // which only say that somebody was faster
			l.failed(ctx, err)
		}
		return err
	}
	l.saw(record.HolderIdentity, nil)
	if record.HolderIdentity == l.Identity() {
		l.renewed(began)
	}
	return nil
}

// failed tells of an error, unless nobody waits for the answer any more.
func (l *lock) failed(ctx context.Context, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		l.saw("", fmt.Errorf("lease %s: %w", l.Describe(), err))
	}
}

func (l *lock) renewed(at time.Time) {
	left := time.Until(at.Add(renewDeadline))
	if l.expiry == nil {
		l.expiry = time.AfterFunc(left, func() { l.end(errNotRenewed) })
	} else {
		l.expiry.Reset(left)
	}
}

// lost ends the term, if there is one.
func (l *lock) lost(why error) {
	if l.expiry != nil {
		l.end(why)
	}
}

// close lets go of the timer.
func (l *lock) close() {
	if l.expiry != nil {
		l.expiry.Stop()
	}
}
