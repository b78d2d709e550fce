package lease

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
)

const (
	leaseDuration = 30 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// ErrNotRenewed, ErrTaken and ErrDeleted explain why a replica has lost the Lease although the
// replica is still running.
var (
	ErrNotRenewed = fmt.Errorf("the Lease could not be renewed for %v", renewDeadline)
	ErrTaken      = errors.New("the Lease has another holder, or none")
	ErrDeleted    = errors.New("the Lease was deleted")
)

// Config configures an election. All fields are required.
type Config struct {
	Leases          func(namespace string) coordinationv1.LeaseInterface
	Namespace, Name string // of the Lease; created if it does not exist
	// Identity is the name of this replica in the Lease, and must be unique among replicas.
	Identity string
	// Observe is called after each API request that reads or writes the Lease, unless a read found
	// no Lease, another client wrote the Lease first, or the request was canceled. After a
	// successful request, holder is the name of the Lease's holder, or empty if the Lease has no
	// holder. After a failed request, err says why the Lease cannot be used. Calls are never
	// concurrent. Observe must not block.
	Observe func(holder string, err error)
}

// Leadership is an uninterrupted period in which one replica holds the Lease. All methods of a
// Leadership are safe for concurrent use.
type Leadership struct {
	ctx   context.Context           // canceled when the Lease is lost
	until atomic.Pointer[time.Time] // end without another renewal; nil if the Lease was never held
}

// Write calls a function with a context that is canceled when the Lease is lost. If the Lease is
// already lost or was not renewed in time, Write returns an error without calling the function.
func (t *Leadership) Write(write func(context.Context) error) error {
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	if !t.renewed() {
		return ErrNotRenewed
	}
	return write(t.ctx)
}

// renewed reports whether the last renewal is recent. The method reads the clock instead of using a
// timer, because timers may fire late when a suspended process resumes.
func (t *Leadership) renewed() bool {
	until := t.until.Load()
	return until != nil && time.Now().Before(*until)
}

// Run takes part in elections until ctx is done, and calls lead each time this replica is elected.
// The context passed to lead is canceled when ctx is done or the Lease is lost, and [context.Cause]
// returns the reason. Once the context is canceled, lead must return as soon as its last write has
// ended.
//
// Run returns nil once ctx is done and the Lease has been released. Run returns an error only if
// the Config is invalid.
func Run(ctx context.Context, c Config, lead func(context.Context, *Leadership)) error {
	for ctx.Err() == nil {
		if err := elect(ctx, c, lead); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPeriod):
		}
	}
	return nil
}

func elect(ctx context.Context, c Config, lead func(context.Context, *Leadership)) error {
	beyond := context.WithoutCancel(ctx) // the Lease is released only after the last write
	held, end := context.WithCancelCause(beyond)
	defer end(nil)
	leadership := &Leadership{ctx: held}
	l := newLock(c, leadership, end)
	elected := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, Name: c.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(elected) },
			OnStoppedLeading: func() { end(ErrNotRenewed) },
		},
	})
	if err != nil {
		return fmt.Errorf("election: %w", err)
	}
	// The empty Logger discards the logs of client-go, because Observe reports the same errors.
	electing, stop := context.WithCancel(klog.NewContext(beyond, klog.Logger{}))
	defer stop()
	over := make(chan struct{})
	go func() {
		defer close(over)
		elector.Run(electing)
	}()
	waiting := context.AfterFunc(ctx, stop)
	select {
	case <-elected:
		if waiting() { // from here on, renewals continue after ctx ends
			work, done := context.WithCancelCause(held)
			unbind := context.AfterFunc(ctx, func() { done(context.Cause(ctx)) })
			lead(work, leadership)
			unbind()
			done(nil)
		}
	case <-over:
	}
	stop()
	<-over
	l.release(beyond)
	return nil
}
