package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	leaseName = "linkerd-destination-endpoint-write"
	// leaseTimeout bounds one request about the Lease, so that one that hangs
	// leaves time for another.
	leaseTimeout = 4 * time.Second
)

// claim is what the Lease has with this replica as its holder.
func (e *election) claim() coordinationv1.LeaseSpec {
	now := metav1.NowMicro()
	acquired, transitions := now, int32(0)
	if e.lease != nil {
		transitions = ptr.Deref(e.lease.Spec.LeaseTransitions, 0)
		if holderOf(e.lease) == e.identity {
			acquired = ptr.Deref(e.lease.Spec.AcquireTime, now)
		} else {
			transitions++
		}
	}
	return coordinationv1.LeaseSpec{
		HolderIdentity: &e.identity, LeaseDurationSeconds: new(int32(leaseDuration / time.Second)),
		AcquireTime: &acquired, RenewTime: &now, LeaseTransitions: &transitions,
	}
}

func (e *election) read(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, leaseTimeout)
	defer stop()
	lease, err := e.leases.Get(ctx, leaseName, metav1.GetOptions{})
	switch {
	case err == nil:
		e.saw(lease)
	case apierrors.IsNotFound(err):
		e.lease, e.ours = nil, false
	default:
		e.failed(ctx, err)
	}
	return err
}

// write writes the Lease, if it is as it was last seen.
func (e *election) write(ctx context.Context, spec coordinationv1.LeaseSpec) error {
	ctx, stop := context.WithTimeout(ctx, leaseTimeout)
	defer stop()
	began := time.Now() // the others count from when they see it, which is later
	lease, put := e.lease.DeepCopy(), e.put
	if lease == nil {
		lease, put = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: leaseName}}, e.create
	}
	lease.Spec = spec
	lease, err := put(ctx, lease)
	claimed := *spec.HolderIdentity == e.identity
	switch {
	case err == nil:
		e.saw(lease)
		if claimed {
			e.until.Store(new(began.Add(renewDeadline)))
		}
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err): // somebody else was faster
	default:
		e.ours = e.ours || claimed
		e.failed(ctx, err)
	}
	return err
}

func (e *election) create(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return e.leases.Create(ctx, lease, metav1.CreateOptions{})
}

func (e *election) put(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return e.leases.Update(ctx, lease, metav1.UpdateOptions{})
}

// saw stores the Lease as it is.
func (e *election) saw(lease *coordinationv1.Lease) {
	if e.lease == nil || !equality.Semantic.DeepEqual(e.lease.Spec, lease.Spec) {
		e.since = time.Now()
	}
	e.lease, e.ours = lease, holderOf(lease) == e.identity
	e.observe(holderOf(lease), nil)
}

// failed reports an error, unless the request was cancelled.
func (e *election) failed(ctx context.Context, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		e.observe("", fmt.Errorf("lease %s/%s: %w", e.namespace, leaseName, err))
	}
}

func holderOf(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }
