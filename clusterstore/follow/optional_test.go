package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"isthmus/internal/adminapi"
)

// TestOptionalLost checks that a forbidden optional resource becomes stale only once it exceeds the
// memory cap. A needed resource is stale from its first failure.
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
			r.failed(t.Context(), fmt.Errorf("%w: too much", ErrOverBudget))
			time.Sleep(time.Minute)
			r.failed(t.Context(), fmt.Errorf("%w: too much", ErrOverBudget))
			if got := g.Health().StaleSince; !got.Equal(want) {
				t.Errorf("needed %v: stale since %v, want %v", needed, got, want)
			}
			g.setFailed(&r.state, errors.New("forbidden"))
			if got := g.Health().StaleSince; got.IsZero() == needed {
				t.Errorf("needed %v: stale since %v", needed, got)
			}
		})
	}
}

// TestAside checks that a resource that no served data depends on never makes a Group unhealthy.
func TestAside(t *testing.T) {
	for _, aside := range []bool{false, true} {
		k := secrets(nil, texts{})
		k.Needed, k.Aside = false, aside
		r := New(k)
		g := NewGroup(Options{}, r)
		g.setSynced()
		r.failed(t.Context(), fmt.Errorf("%w: too much", ErrOverBudget))
		h := g.Health()
		if healthy := h.Err == nil && h.StaleSince.IsZero(); healthy != aside {
			t.Errorf("aside %v: %v, stale since %v", aside, h.Err, h.StaleSince)
		}
		if h.Resources[0].Err == "" {
			t.Errorf("aside %v: the error is not shown", aside)
		}
	}
}

// TestOptionalWaitedFor checks that the first sync waits for an optional resource that cannot be
// listed. Without the wait, the resource would seem to be empty. The wait ends after
// optionalPatience, or if the resource is refused or absent.
func TestOptionalWaitedFor(t *testing.T) {
	unreachable := errors.New("unreachable")
	failing := apierrors.NewInternalError(errors.New("conversion webhook failed"))
	refused := apierrors.NewForbidden(corev1.Resource("secrets"), "", nil)
	for name, x := range map[string]struct {
		err       error
		lasts     time.Duration // duration of the error
		serves    bool          // whether API discovery has the resource
		unknown   error         // error of API discovery
		unawaited bool
		least     time.Duration // minimum time until the sync
		most      time.Duration
		listed    bool
	}{
		"2 s late": {err: unreachable, lasts: 2 * time.Second,
			least: 2 * time.Second, most: 6 * time.Second, listed: true},
		"6 s late": {err: failing, lasts: 6 * time.Second,
			least: 6 * time.Second, most: 10 * time.Second, listed: true},
		"20 s late": {err: failing, lasts: 20 * time.Second,
			least: 20 * time.Second, most: 24 * time.Second, listed: true},
		"40 s late": {err: failing, lasts: 40 * time.Second,
			least: optionalPatience, most: optionalPatience},
		"late forever": {err: unreachable, lasts: time.Hour,
			least: optionalPatience, most: optionalPatience},
		"401": {err: apierrors.NewUnauthorized(""), lasts: time.Hour,
			least: optionalPatience, most: optionalPatience},
		"refused": {err: refused, lasts: 2 * time.Second},
		"not allowed": {
			err: apierrors.NewMethodNotSupported(corev1.Resource("secrets"), "list"), lasts: 2 * time.Second},
		"absent": {err: errNotFound, lasts: time.Hour},
		"not found, and in discovery": {err: errNotFound, lasts: 6 * time.Second, serves: true,
			least: 6 * time.Second, most: 20 * time.Second, listed: true},
		"not found, and discovery fails": {err: errNotFound, lasts: time.Hour, unknown: unreachable,
			least: optionalPatience, most: optionalPatience},
		"not found, until discovery works": {err: errNotFound, lasts: 6 * time.Second, unknown: unreachable,
			least: 6 * time.Second, most: 16 * time.Second, listed: true},
		"over budget":      {err: fmt.Errorf("%w: too much", ErrOverBudget), lasts: time.Hour},
		"only for exports": {err: failing, lasts: 2 * time.Second, unawaited: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newOptional(x.err)
				a.serves, a.unknown, a.unawaited = x.serves, x.unknown, x.unawaited
				began := time.Now()
				time.AfterFunc(x.lasts, func() { a.set(func() { a.err = nil }) })
				g, known, end := a.follow(t)
				defer end()
				<-g.Synced()
				if took := time.Since(began); took < x.least || took > x.most || x.listed && !known.has("a") {
					t.Errorf("synced after %v, listed %v; %+v", took, known.has("a"), g.Health().Resources[0])
				}
			})
		})
	}
}

// TestSlowList checks that a resource has a failure while its first list outlasts the first sync.
func TestSlowList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newOptional(nil)
		a.pause = optionalPatience + 2*time.Second
		k := secrets(a, texts{})
		k.Needed = false
		g := NewGroup(Options{}, New(k))
		defer start(t, g, nil)()
		<-g.Synced()
		got := g.Health().Resources[0]
		if !got.NeverRead() || got.Failure != adminapi.Failing || got.Err != errLate.Error() {
			t.Errorf("after the first sync: %+v", got)
		}
		time.Sleep(3 * time.Second)
		if got := g.Health().Resources[0]; !got.Synced || got.NeverRead() || got.Err != "" {
			t.Errorf("after the list: %+v", got)
		}
	})
}

// TestOptionalAfterNeeded checks that the patience for optional resources begins after the needed
// ones are listed.
func TestOptionalAfterNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		needed, optional := newOptional(errors.New("unreachable")), newOptional(errors.New("unreachable"))
		time.AfterFunc(time.Minute, func() { needed.set(func() { needed.err = nil }) })
		time.AfterFunc(time.Minute+time.Second, func() { optional.set(func() { optional.err = nil }) })
		first, known := secrets(needed, texts{}), texts{}
		second := secrets(optional, known)
		second.Name, second.Needed = "optional", false
		g := NewGroup(Options{}, New(first), New(second))
		defer start(t, g, nil)()
		<-g.Synced()
		if !known.has("a") {
			t.Error("the first sync did not wait for the optional resource")
		}
	})
}

// TestAdmit checks that a listed Group keeps listing until it is admitted, and has synced from then
// on.
func TestAdmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newOptional(apierrors.NewForbidden(corev1.Resource("secrets"), "", nil))
		admit, known := make(chan struct{}), texts{}
		k := secrets(a, known)
		k.Needed = false
		g := NewGroup(Options{Admit: admit}, New(k))
		live := false
		defer start(t, g, func() { live = known.has("a") })()
		<-g.Listed()
		a.set(func() { a.err = nil })
		time.Sleep(time.Hour)
		select {
		case <-g.Synced():
			t.Error("the Group synced before it was admitted")
		default:
		}
		close(admit)
		<-g.Synced()
		if !live {
			t.Error("the Group synced before the resource was listed")
		}
	})
}

// TestFailure checks that the health classifies failures and says whether the same failure has
// repeated.
func TestFailure(t *testing.T) {
	for _, x := range []struct {
		err    error
		serves bool
		after  time.Duration
		want   adminapi.ReadFailure
		lasts  bool
	}{
		{errors.New("unreachable"), true, time.Second, adminapi.Failing, false},
		{apierrors.NewUnauthorized(""), true, time.Second, adminapi.Unauthorized, false},
		{apierrors.NewUnauthorized(""), true, 20 * time.Second, adminapi.Unauthorized, true},
		{apierrors.NewForbidden(corev1.Resource("secrets"), "", nil), true, 20 * time.Second,
			adminapi.Forbidden, false},
		{apierrors.NewForbidden(corev1.Resource("secrets"), "", nil), true, 40 * time.Second, adminapi.Forbidden, true},
		{errNotFound, true, time.Minute, adminapi.Failing, true},
		{errNotFound, false, time.Second, adminapi.Absent, false},
		{errNotFound, false, 10 * time.Minute, adminapi.Absent, true},
		{fmt.Errorf("%w: too much", ErrOverBudget), true, time.Second, adminapi.OverBudget, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newOptional(x.err)
			a.serves = x.serves
			g, _, end := a.follow(t)
			defer end()
			time.Sleep(x.after)
			synctest.Wait()
			if got := g.Health().Resources[0]; got.Failure != x.want || got.Lasts != x.lasts ||
				got.NeverRead() != (x.want != adminapi.Absent) {
				t.Errorf("%v after %v: %+v", x.err, x.after, got)
			}
			a.set(func() { a.err, a.serves = nil, true })
			time.Sleep(optionalPause + 5*time.Second)
			if got := g.Health().Resources[0]; got.Failure != "" || got.Lasts || got.NeverRead() {
				t.Errorf("after the failure: %+v", got)
			}
		})
	}
}

// optionalAPI is an API with an optional kind that has one object.
type optionalAPI struct {
	*scripted
	serves   bool  // response of API discovery
	unknown  error // error of API discovery
	discover int   // number of discovery requests

	unawaited bool // Kind.Unawaited
}

func newOptional(err error) *optionalAPI {
	return &optionalAPI{scripted: &scripted{version: "1", items: []item{labelled("a", "")}, err: err}, serves: true}
}

func (a *optionalAPI) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// cutOff ends the watches and makes requests fail, as if the cluster were unreachable.
func (a *optionalAPI) cutOff() {
	a.set(func() { a.err = errors.New("unreachable") })
	for _, w := range a.opened() {
		w.stop()
	}
	time.Sleep(10 * time.Second)
}

// follow follows the kind until end is called.
func (a *optionalAPI) follow(t *testing.T) (g *Group, known texts, end func()) {
	known = texts{}
	k := secrets(a, known)
	k.Needed, k.Serves = false, func(context.Context) (bool, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.discover++
		return a.serves, a.unknown
	}
	k.Unawaited = a.unawaited
	g = NewGroup(Options{}, New(k))
	return g, known, start(t, g, nil)
}

func (a *optionalAPI) run(t *testing.T, f func(g *Group, known texts)) {
	synctest.Test(t, func(t *testing.T) {
		g, known, end := a.follow(t)
		defer end()
		if !known.has("a") {
			t.Fatal("the kind is not cached")
		}
		a.cutOff()
		f(g, known)
	})
}

var errNotFound = apierrors.NewNotFound(corev1.Resource("secrets"), "")

// TestAbsent checks that objects of an optional kind are dropped only once API discovery confirms
// that the kind is absent.
func TestAbsent(t *testing.T) {
	for name, c := range map[string]struct {
		err, unknown error
		serves, kept bool
	}{
		"not found, and not in discovery": {err: errNotFound},
		"not found, and in discovery":     {err: errNotFound, serves: true, kept: true},
		"not found, and discovery fails":  {err: errNotFound, unknown: errors.New("no rights"), kept: true},
		"forbidden, and not in discovery": {
			err:  apierrors.NewForbidden(corev1.Resource("secrets"), "", nil),
			kept: true,
		},
		"not allowed, and not in discovery": {
			err:  apierrors.NewMethodNotSupported(corev1.Resource("secrets"), "list"),
			kept: true,
		},
		"failing, and not in discovery":           {err: apierrors.NewInternalError(errors.New("no etcd")), kept: true},
		"still unreachable, and not in discovery": {err: errors.New("unreachable"), kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newOptional(nil)
			a.run(t, func(g *Group, known texts) {
				a.set(func() { a.err, a.serves, a.unknown = c.err, c.serves, c.unknown })
				time.Sleep(5 * time.Second) // the backoff
				synctest.Wait()
				if known.has("a") != c.kept || g.Health().Resources[0].Objects != map[bool]int{true: 1}[c.kept] {
					t.Errorf("cached: %v, %+v", known.has("a"), g.Health())
				}
				time.Sleep(10 * time.Minute)
				if known.has("a") != c.kept {
					t.Errorf("cached later: %v", known.has("a"))
				}
				a.set(func() { a.err, a.serves, a.unknown = nil, true, nil })
				time.Sleep(optionalPause + 5*time.Second)
				if h := g.Health().Resources[0]; !known.has("a") || h.Err != "" || h.Objects != 1 {
					t.Errorf("afterwards: %+v", h)
				}
			})
		})
	}
}

// TestAbsentReturns checks that an absent kind is cached within 10 s of its return. Requests of API
// discovery are limited meanwhile.
func TestAbsentReturns(t *testing.T) {
	a := newOptional(nil)
	a.run(t, func(g *Group, known texts) {
		a.set(func() { a.err, a.serves = errNotFound, false })
		for _, after := range []time.Duration{time.Minute, 61 * time.Second, 67 * time.Second, 73 * time.Second} {
			time.Sleep(after)
			a.set(func() { a.err, a.serves = nil, true })
			time.Sleep(10 * time.Second)
			if !known.has("a") {
				t.Errorf("the kind is not cached after %v", after)
			}
			a.cutOff()
			a.set(func() { a.err, a.serves = errNotFound, false })
		}
		var asked int
		a.set(func() { asked = a.discover })
		time.Sleep(10 * time.Minute)
		a.set(func() {
			if n := a.discover - asked; n < 10 || n > int(10*time.Minute/discoveryPause)*5/4 {
				t.Errorf("%d discovery requests were sent", n)
			}
		})
	})
}

// TestClear checks that a Store is notified of each dropped object. One notification follows the
// last drop.
func TestClear(t *testing.T) {
	var log []string
	k := secrets(nil, texts{"ns/a": "", "ns/b": ""})
	k.Changed = func(key string, _ string, ok bool) { log = append(log, key) }
	k.Applied = func() { log = append(log, "applied") }
	r := New(k)
	NewGroup(Options{}, r)
	f := r.feed
	f.clear()
	f.clear()
	if slices.Sort(log); !slices.Equal(log, []string{"applied", "ns/a", "ns/b"}) {
		t.Errorf("%q", log)
	}
}
