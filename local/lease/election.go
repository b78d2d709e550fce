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

// The reasons why a leadership ends while its replica goes on.
var (
	ErrNotRenewed = fmt.Errorf("the Lease could not be renewed for %v", renewDeadline)
	ErrTaken      = errors.New("the Lease has another holder, or none")
	ErrDeleted    = errors.New("the Lease was deleted")
)

// Config is of an election. All fields are needed.
type Config struct {
	Leases          func(namespace string) coordinationv1.LeaseInterface
	Namespace, Name string // of the Lease, which is created if it does not exist
	// Identity is the holder's name in the Lease. No other replica may have the same.
	Identity string
	// Observe is called after each request about the Lease: with its holder (empty: it
	// has none), or with why it can't be used. It is not called by two goroutines at a time, and must
	// not block.
	Observe func(holder string, err error)
}

// Leadership is the time in which one replica holds the Lease without a break. Its methods are safe
// for concurrent use.
type Leadership struct {
	ctx   context.Context           // ends when the Lease is lost
	until atomic.Pointer[time.Time] // when it ends, unless the Lease is renewed; nil: it was never held
}

// Write calls write, with a context that ends when the Lease is lost. It returns an error, and
// does not call it, if the Lease is lost or has not been renewed for too long.
func (t *Leadership) Write(write func(context.Context) error) error {
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	if !t.renewed() {
		return ErrNotRenewed
	}
	return write(t.ctx)
}

// renewed reports whether the last renewal is recent, by the clock: after the process has stood
// still, that shows before a timer fires.
func (t *Leadership) renewed() bool {
	until := t.until.Load()
	return until != nil && time.Now().Before(*until)
}

// Run takes part in elections until ctx ends, and calls lead each time that this replica is
// elected. The context of lead ends with ctx and when the Lease is lost, its cause is which;
// lead then returns once its last write has ended. Run returns nil when ctx has ended and the Lease,
// if it was held, is released; an error only if the Config can't be used.
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

// elect is one election, with the leadership that may follow.
func elect(ctx context.Context, c Config, lead func(context.Context, *Leadership)) error {
	beyond := context.WithoutCancel(ctx) // the Lease is kept until the last write has ended, and then released
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
	// What client-go logs is observed here, with the errors.
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
		if waiting() { // from now on, the end of ctx does not stop the renewals
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
