package follow

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"isthmus/clusterstore/budget"
)

// TestOptionalLost: an optional resource that has been forbidden for long is lost from when
// it is over budget; a needed one since it failed.
func TestOptionalLost(t *testing.T) {
	for _, needed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k := secrets(nil, texts{})
			k.Needed = needed
			r := New(k)
			g := NewGroup(Options{}, r)
			g.setSynced()
			failed := time.Now()
			g.setFailed(&r.state, errors.New("forbidden"))
			time.Sleep(time.Hour)
			want := failed
			if !needed {
				want = time.Now()
			}
			r.failed(t.Context(), fmt.Errorf("%w: too much", budget.ErrOver))
			time.Sleep(time.Minute)
			r.failed(t.Context(), fmt.Errorf("%w: too much", budget.ErrOver))
			if got := g.Health().StaleSince; !got.Equal(want) {
				t.Errorf("needed %v: lost at %v, want %v", needed, got, want)
			}
			g.setFailed(&r.state, errors.New("forbidden"))
			if got := g.Health().StaleSince; got.IsZero() == needed {
				t.Errorf("needed %v: lost at %v", needed, got)
			}
		})
	}
}

// TestAside: a resource that nothing that is served depends on makes no Group unhealthy.
func TestAside(t *testing.T) {
	for _, aside := range []bool{false, true} {
		k := secrets(nil, texts{})
		k.Needed, k.Aside = false, aside
		r := New(k)
		g := NewGroup(Options{}, r)
		g.setSynced()
		r.failed(t.Context(), fmt.Errorf("%w: too much", budget.ErrOver))
		h := g.Health()
		if healthy := h.Err == nil && h.StaleSince.IsZero(); healthy != aside {
			t.Errorf("aside %v: %v, lost %v", aside, h.Err, h.StaleSince)
		}
		if h.Resources[0].Err == "" {
			t.Errorf("aside %v: the error is not shown", aside)
		}
	}
}

// TestOptionalWaitedFor: the first sync waits for an optional resource that can't be listed for a moment, since none of its objects
// would look as if there were none; not for one that is refused, nor for longer than optionalGrace.
func TestOptionalWaitedFor(t *testing.T) {
	const outage = 2 * time.Second
	for _, x := range []struct {
		err    error
		lasts  time.Duration
		waits  bool
		listed bool
	}{
		{errors.New("unreachable"), outage, true, true},
		{errors.New("unreachable"), time.Minute, true, false},
		{apierrors.NewForbidden(corev1.Resource("secrets"), "", nil), outage, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newOptional(x.err)
			began := time.Now()
			time.AfterFunc(x.lasts, func() { a.set(func() { a.err = nil }) })
			g, known, end := a.follow(t)
			defer end()
			<-g.Synced()
			if waited := time.Since(began); (waited > 0) != x.waits || waited > optionalGrace || known.has("a") != x.listed {
				t.Errorf("%v for %v: synced after %v, listed %v", x.err, x.lasts, waited, known.has("a"))
			}
		})
	}
}
