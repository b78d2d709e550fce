package externalworkload

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestClaim: what is in a Lease that was taken is what Linkerd's controller writes.
func TestClaim(t *testing.T) {
	before := metav1.NewMicroTime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	held := func(by string) func(*coordinationv1.Lease) {
		return func(l *coordinationv1.Lease) {
			l.Labels = map[string]string{"of": "others"}
			l.Spec = coordinationv1.LeaseSpec{
				HolderIdentity: &by, LeaseDurationSeconds: new(int32(0)), AcquireTime: &before, RenewTime: &before, LeaseTransitions: new(int32(7)),
				PreferredHolder: new("x"),
			}
		}
	}
	for name, x := range map[string]struct {
		is          func(*coordinationv1.Lease) // nil: there is none
		transitions int32
		kept        bool // the time of acquisition
	}{
		"none":    {nil, 0, false},
		"empty":   {func(*coordinationv1.Lease) {}, 1, false},
		"free":    {held(""), 8, false},
		"expired": {held("other"), 8, false},
		"ours":    {held("a"), 7, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &leaseAPI{}
				if x.is != nil {
					api.edit(x.is)
				}
				e := (&leaseClient{api: api}).election("a")
				for try := 0; !e.take(t.Context()); try++ { // another's is taken when it was seen once
					if time.Sleep(time.Nanosecond); try > 1 {
						t.Fatal("not taken")
					}
				}
				l, err := api.get()
				if err != nil {
					t.Fatal(err)
				}
				s := l.Spec
				if *s.HolderIdentity != "a" || *s.LeaseDurationSeconds != 30 || *s.LeaseTransitions != x.transitions || s.PreferredHolder != nil {
					t.Errorf("%+v", s)
				}
				if now := time.Now().Truncate(time.Microsecond); !s.RenewTime.Time.Truncate(time.Microsecond).Equal(now) || (s.AcquireTime.Equal(&before) != x.kept) {
					t.Errorf("renewed %v, acquired %v", s.RenewTime, s.AcquireTime)
				}
				if x.is != nil && name != "empty" && l.Labels["of"] != "others" {
					t.Errorf("labels %v", l.Labels)
				}
			})
		})
	}
}

// TestOthersLease: a Lease is taken once nobody has renewed it for as long as it is good,
// whatever the times in it.
func TestOthersLease(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, 0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			api := &leaseAPI{}
			other := &leaseClient{api: api, skew: skew}
			if !other.election("b").take(t.Context()) {
				t.Fatal("b does not take it")
			}
			e := (&leaseClient{api: api}).election("a")
			never := func(d time.Duration) {
				t.Helper()
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
					if e.take(t.Context()) {
						t.Fatalf("taken %v early", time.Until(end))
					}
				}
			}
			never(leaseDuration)
			api.edit(func(l *coordinationv1.Lease) {
				l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(l.Spec.RenewTime.Add(1000)))
			})
			never(leaseDuration - time.Second)
			api.edit(func(l *coordinationv1.Lease) { l.Labels = map[string]string{"x": "y"} }) // which is no renewal
			never(time.Second)
			if !e.take(t.Context()) {
				t.Error("not taken")
			}
		})
	}
}

// TestSlowRead: what is read late counts from then.
func TestSlowRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &leaseAPI{}
		if !(&leaseClient{api: api}).election("b").take(t.Context()) {
			t.Fatal("b does not take it")
		}
		a := &leaseClient{api: api}
		e := a.election("a")
		e.take(t.Context())
		time.Sleep(leaseDuration - time.Second)
		a.setWay(func(_ context.Context, do func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
			l, err := do() // as it was before a renewal that is under way
			time.Sleep(2 * time.Second)
			return l, err
		})
		if e.take(t.Context()) {
			t.Error("taken by what was known before the Lease had expired")
		}
	})
}

// TestSlowWrite: what is written counts from when that began.
func TestSlowWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &leaseClient{api: &leaseAPI{}}
		c.setWay(func(_ context.Context, do func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
			l, err := do()
			time.Sleep(3 * time.Second)
			return l, err
		})
		e := c.election("a")
		if !e.take(t.Context()) || !e.held() { // a read and a write
			t.Fatal("not taken")
		}
		if time.Sleep(renewDeadline - 3*time.Second); e.held() {
			t.Error("held for longer than since the write began")
		}
	})
}

// ofTerm runs an election that leads until its term ends, and returns why it did.
func ofTerm(t *testing.T, e *election) (why <-chan error, stop func()) {
	t.Helper()
	result := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.run(ctx, func(term context.Context) {
			select {
			case <-term.Done():
				result <- context.Cause(term)
			case <-ctx.Done():
			}
		})
	}()
	synctest.Wait()
	return result, func() { cancel(); <-done }
}

// TestKeep: a term goes on as long as the Lease is renewed, and ends when that is known to be
// impossible, for the reason that is known.
func TestKeep(t *testing.T) {
	for name, x := range map[string]struct {
		happens func(*leaseAPI, *leaseClient)
		within  time.Duration
		why     error // nil: it goes on
	}{
		"nothing": {func(*leaseAPI, *leaseClient) {}, time.Hour, nil},
		"edited": {func(api *leaseAPI, _ *leaseClient) {
			api.edit(func(l *coordinationv1.Lease) { l.Labels = map[string]string{"x": "y"} })
		}, time.Hour, nil},
		"edited before each renewal": {func(api *leaseAPI, c *leaseClient) {
			var last time.Time
			c.setWay(func(_ context.Context, do func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
				if time.Since(last) > time.Second {
					api.edit(func(l *coordinationv1.Lease) { l.Labels = map[string]string{"x": time.Now().String()} })
				}
				last = time.Now()
				return do()
			})
		}, time.Hour, nil},
		"taken": {func(api *leaseAPI, _ *leaseClient) {
			api.edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("b") })
		}, retryPeriod, errTaken},
		"cleared": {func(api *leaseAPI, _ *leaseClient) {
			api.edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil })
		}, retryPeriod, errTaken},
		"deleted": {func(api *leaseAPI, _ *leaseClient) { api.remove() }, retryPeriod, errDeleted},
		"refused": {func(_ *leaseAPI, c *leaseClient) {
			c.setWay(func(context.Context, func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
				return nil, errAway
			})
		}, renewDeadline, errNotRenewed},
		"silent": {func(_ *leaseAPI, c *leaseClient) {
			c.setWay(func(ctx context.Context, _ func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
		}, renewDeadline, errNotRenewed},
		"one hangs": {func(_ *leaseAPI, c *leaseClient) {
			hung := false
			c.setWay(func(ctx context.Context, do func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
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
				e := client.election("a")
				ended, stop := ofTerm(t, e)
				defer stop()
				time.Sleep(retryPeriod + time.Millisecond) // it was just renewed
				x.happens(api, client)
				began, writes := time.Now(), api.written()
				select {
				case why := <-ended:
					took := time.Since(began)
					if !errors.Is(why, x.why) || x.why == nil || took > x.within {
						t.Errorf("it ended after %v: %v", took, why)
					}
					if x.why != errNotRenewed && api.written() != writes {
						t.Errorf("%d writes by one that has lost the Lease", api.written()-writes)
					}
				case <-time.After(x.within + time.Millisecond):
					if x.why != nil {
						t.Errorf("it has not ended after %v", x.within)
					}
					if held := e.held(); held != (x.why == nil) {
						t.Errorf("held: %t", held)
					}
				}
			})
		})
	}
}

// TestReleased: a Lease that is ours is released once nothing needs it, though others edit it
// meanwhile; one that may be ours is looked at; any other stays as it is.
func TestReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &leaseAPI{}
		client := &leaseClient{api: api}
		_, stop := ofTerm(t, client.election("a"))
		time.Sleep(time.Minute)
		edits := maxReleases - 1
		client.setWay(func(_ context.Context, do func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
			l, err := do()
			if edits > 0 && err == nil { // between the read and the write
				edits--
				api.edit(func(l *coordinationv1.Lease) { l.Labels = map[string]string{"edit": time.Now().String()} })
			}
			return l, err
		})
		stop()
		s := api.spec()
		if *s.HolderIdentity != "" || *s.LeaseDurationSeconds != 1 || *s.LeaseTransitions != 0 || time.Since(s.RenewTime.Time) > time.Second {
			t.Errorf("%+v", s)
		}
		edits = 1000
		_, stop = ofTerm(t, client.election("b"))
		stop()
		if edits < 900 {
			t.Errorf("%d tries to release it", 1000-edits)
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
			e := client.election("a")
			requests := 0
			client.setWay(func(_ context.Context, do func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
				if requests++; requests != 2 { // the second takes it
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
			_, stop := ofTerm(t, e)
			stop()
			if got := *api.spec().HolderIdentity; got != x.want {
				t.Errorf("%s: %q holds the Lease", name, got)
			}
		})
	}
}
