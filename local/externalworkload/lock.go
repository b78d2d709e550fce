package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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

// lock is the Lease as one election uses it. It reports the holder, and ends the term
// at once when the Lease is not ours any more: client-go's elector goes on trying to
// renew it for a while, and to release it, before it reports that.
type lock struct {
	*resourcelock.LeaseLock
	observe func(holder string, err error)
	end     context.CancelCauseFunc   // of the term
	expiry  *time.Timer               // ends the term; nil: we have not held the Lease yet
	until   atomic.Pointer[time.Time] // when it does; safe for concurrent use
	holder  string                    // as last read or written
	unsure  bool                      // the last write, which was to make us the holder, may have succeeded or not
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
		l.observeError(ctx, err)
	default:
		l.holder = record.HolderIdentity
		l.observe(l.holder, nil)
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

// write writes a record to the Lease. One without a holder releases it, but only if
// it is ours: the elector releases by the record that it knows, not by the one that
// it has just read.
func (l *lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, do func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	if record.HolderIdentity == "" && l.holder != l.Identity() {
		return errTaken
	}
	ctx, stop := context.WithTimeout(ctx, leaseTimeout)
	defer stop()
	began := time.Now() // the others count from when the server has written it, which is later
	if err := do(ctx, record); err != nil {
		l.unsure = false
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) { // these mean that another replica was faster
			l.unsure = record.HolderIdentity == l.Identity()
			l.observeError(ctx, err)
		}
		return err
	}
	l.holder, l.unsure = record.HolderIdentity, false
	l.observe(l.holder, nil)
	if record.HolderIdentity == l.Identity() {
		l.renewed(began)
	}
	return nil
}

// observeError reports an error, unless the request was cancelled.
func (l *lock) observeError(ctx context.Context, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		l.observe("", fmt.Errorf("lease %s: %w", l.Describe(), err))
	}
}

// releaseUnsure releases the Lease if a write that was cancelled has made it ours
// without the elector's knowledge. It is called after the elector has ended.
func (l *lock) releaseUnsure(ctx context.Context) {
	if l.expiry != nil || !l.unsure { // the elector has released what it knows to be ours
		return
	}
	record, _, err := l.Get(ctx)
	if err != nil {
		return
	}
	now := metav1.Now()
	_ = l.Update(ctx, resourcelock.LeaderElectionRecord{ // reports its result by observe
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	})
}

func (l *lock) renewed(at time.Time) {
	until := at.Add(renewDeadline)
	l.until.Store(&until)
	left := time.Until(until)
	if l.expiry == nil {
		l.expiry = time.AfterFunc(left, func() { l.end(errNotRenewed) })
	} else {
		l.expiry.Reset(left)
	}
}

// held reports whether the Lease is still ours by the clock. After the process has
// stood still, the clock shows that before the timer fires.
func (l *lock) held() bool {
	until := l.until.Load()
	return until != nil && time.Now().Before(*until)
}

// lost ends the term, if there is one.
func (l *lock) lost(why error) {
	if l.expiry != nil {
		l.end(why)
	}
}

// close stops the timer.
func (l *lock) close() {
	if l.expiry != nil {
		l.expiry.Stop()
	}
}
