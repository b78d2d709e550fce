package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// led is a replica that takes part in elections. While it leads, it only waits.
type led struct {
	leaderships chan *Leadership // each leadership when it begins
	ended       chan error       // the cause of each end
	stop        func()           // ends Run and waits for it
}

func lead(t *testing.T, c *leaseClient, identity string) led {
	t.Helper()
	l := led{leaderships: make(chan *Leadership, 10), ended: make(chan error, 10)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := Run(ctx, c.config(identity), func(work context.Context, leadership *Leadership) {
			l.leaderships <- leadership
			<-work.Done()
			l.ended <- context.Cause(work)
		}); err != nil {
			t.Error(err)
		}
	}()
	l.stop = func() { cancel(); <-done }
	synctest.Wait()
	return l
}

func held(t *Leadership) bool { return t.Write(func(context.Context) error { return nil }) == nil }

// alone returns the lock of a replica that is not running.
func alone(t *testing.T, client *leaseClient) *lock {
	t.Helper()
	ctx, end := context.WithCancelCause(t.Context())
	return newLock(client.config("a"), &Leadership{ctx: ctx}, end)
}

var mine = resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 30}

// TestSlowWrite checks that a renewal counts from the start of its write.
func TestSlowWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &leaseClient{api: &leaseAPI{}}
		c.setWay(func(_ context.Context, do func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
			l, err := do()
			time.Sleep(3 * time.Second)
			return l, err
		})
		l := alone(t, c)
		if err := l.Create(t.Context(), mine); err != nil || !held(l.leadership) {
			t.Fatalf("the Lease is not held: %v", err)
		}
		if time.Sleep(renewDeadline - 3*time.Second); held(l.leadership) {
			t.Error("the Lease is held for too long after the write began")
		}
	})
}

// TestStoodStill checks that no write begins if the last renewal is too old. No write may begin
// even if the timer that ends the leadership fires late.
func TestStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, ctx := alone(t, &leaseClient{api: &leaseAPI{}}), t.Context()
		leadership := l.leadership
		if held(leadership) {
			t.Error("the Lease is held from the start")
		}
		if err := l.Create(ctx, mine); err != nil {
			t.Fatal(err)
		}
		l.expiry.Stop() // simulate a late timer
		time.Sleep(renewDeadline)
		if err := leadership.Write(func(context.Context) error {
			t.Error("the write was executed")
			return nil
		}); !errors.Is(err, ErrNotRenewed) {
			t.Errorf("without the Lease: %v", err)
		}
		if err := l.Update(ctx, mine); err != nil {
			t.Fatal(err)
		}
		time.Sleep(renewDeadline - 1)
		if !held(leadership) {
			t.Error("the Lease is not held after its renewal")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if err := leadership.Write(func(context.Context) error {
			return nil
		}); !errors.Is(err, ErrNotRenewed) || leadership.ctx.Err() == nil {
			t.Errorf("after the timer: %v", err)
		}
		if err := l.Update(ctx, mine); !errors.Is(err, ErrNotRenewed) {
			t.Errorf("the Lease was acquired again after the leadership: %v", err)
		}
	})
}

// TestLeadership checks that a leadership continues while the Lease is renewed, and ends with the
// right cause once renewal is impossible.
func TestLeadership(t *testing.T) {
	type do = func() (*coordinationv1.Lease, error)
	for name, x := range map[string]struct {
		happens func(*leaseAPI, *leaseClient)
		within  time.Duration
		why     error // if nil, the leadership continues
	}{
		"nothing": {func(*leaseAPI, *leaseClient) {}, time.Hour, nil},
		"edited": {func(api *leaseAPI, _ *leaseClient) {
			api.edit(func(l *coordinationv1.Lease) { l.Labels = map[string]string{"x": "y"} })
		}, time.Hour, nil},
		"taken": {func(api *leaseAPI, _ *leaseClient) {
			api.edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("b") })
		}, retryPeriod, ErrTaken},
		"cleared": {func(api *leaseAPI, _ *leaseClient) {
			api.edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil })
		}, retryPeriod, ErrTaken},
		"deleted": {func(api *leaseAPI, _ *leaseClient) { api.remove() }, retryPeriod, ErrDeleted},
		"refused": {func(_ *leaseAPI, c *leaseClient) {
			c.setWay(func(context.Context, do) (*coordinationv1.Lease, error) { return nil, errAway })
		}, renewDeadline, ErrNotRenewed},
		"silent": {func(_ *leaseAPI, c *leaseClient) {
			c.setWay(func(ctx context.Context, _ do) (*coordinationv1.Lease, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
		}, renewDeadline, ErrNotRenewed},
		"one hangs": {func(_ *leaseAPI, c *leaseClient) {
			hung := false
			c.setWay(func(ctx context.Context, do do) (*coordinationv1.Lease, error) {
				if !hung {
					hung = true
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return do()
			})
		}, time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &leaseAPI{}
				client := &leaseClient{api: api}
				a := lead(t, client, "a")
				defer a.stop()
				leadership := <-a.leaderships
				time.Sleep(retryPeriod + time.Millisecond) // the Lease was just renewed
				x.happens(api, client)
				began, writes := time.Now(), api.written()
				select {
				case why := <-a.ended:
					took := time.Since(began)
					if !errors.Is(why, x.why) || x.why == nil || took > x.within {
						t.Errorf("the leadership ended after %v: %v", took, why)
					}
					if held(leadership) || x.why != ErrNotRenewed && api.written() != writes {
						t.Errorf(
							"held: %t, %d writes by one that has lost the Lease",
							held(leadership),
							api.written()-writes,
						)
					}
				case <-time.After(x.within + time.Millisecond):
					if x.why != nil {
						t.Errorf("the leadership has not ended after %v", x.within)
					}
					if !held(leadership) {
						t.Error("the Lease is not held")
					}
				}
			})
		})
	}
}

// TestReleased checks that a replica releases its Lease even if others edit the Lease at the same
// time. If the holder is uncertain, the replica reads the Lease first. The replica does not change
// other Leases.
func TestReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &leaseAPI{}
		client := &leaseClient{api: api}
		a := lead(t, client, "a")
		time.Sleep(time.Minute)
		edits := maxReleases - 1
		client.setWay(func(_ context.Context, do func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
			l, err := do()
			if edits > 0 && err == nil { // edit between the read and the write
				edits--
				api.edit(func(l *coordinationv1.Lease) { l.Labels = map[string]string{"edit": time.Now().String()} })
			}
			return l, err
		})
		a.stop()
		s := api.spec()
		if *s.HolderIdentity != "" || *s.LeaseDurationSeconds != 1 || *s.LeaseTransitions != 0 ||
			time.Since(s.RenewTime.Time) > time.Second {
			t.Errorf("%+v", s)
		}
	})
	for name, x := range map[string]struct {
		err  error
		want string
	}{
		"refused":  {apierrors.NewConflict(leaseResource, leaseName, errAway), "b"},
		"answered": {nil, ""},
		"not":      {errAway, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := &leaseAPI{}
			api.edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") })
			client := &leaseClient{api: api}
			requests := 0
			client.setWay(func(
				_ context.Context, do func() (*coordinationv1.Lease, error),
			) (*coordinationv1.Lease, error) {
				if requests++; requests != 2 { // the second request acquires the Lease
					return do()
				}
				if apierrors.IsConflict(x.err) {
					api.edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("b") })
				}
				l, err := do()
				if x.err != nil {
					err = x.err
				}
				return l, err
			})
			lead(t, client, "a").stop()
			if got := *api.spec().HolderIdentity; got != x.want {
				t.Errorf("%s: %q holds the Lease", name, got)
			}
		})
	}
}

// TestReleaseNotOurs checks that a stopping replica does not release the Lease of a new holder that
// it has not seen yet.
func TestReleaseNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &leaseAPI{}
		a := lead(t, &leaseClient{api: api}, "a")
		<-a.leaderships
		api.edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("b") })
		a.stop()
		if got := *api.spec().HolderIdentity; got != "b" {
			t.Errorf("%q holds the Lease", got)
		}
	})
}

// TestLastWrite checks that the Lease is renewed until the last write has ended. Only then is it
// released.
func TestLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &leaseAPI{}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- Run(ctx, (&leaseClient{api: api}).config("a"), func(_ context.Context, leadership *Leadership) {
				cancel()
				if err := leadership.Write(func(ctx context.Context) error {
					time.Sleep(time.Minute)
					return ctx.Err()
				}); err != nil {
					t.Error(err)
				}
				if s := api.spec(); *s.HolderIdentity != "a" || *s.LeaseDurationSeconds != 30 ||
					time.Since(s.RenewTime.Time) > 2*retryPeriod {
					t.Errorf("after the write: %+v", s)
				}
			})
		}()
		if err := <-done; err != nil || *api.spec().HolderIdentity != "" {
			t.Errorf("%v; %q holds the Lease", err, *api.spec().HolderIdentity)
		}
	})
}
