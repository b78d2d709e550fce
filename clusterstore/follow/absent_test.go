package follow

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// optionalAPI has an optional kind with one object, unless list and watch fail.
type optionalAPI struct {
	*scripted
	serves   bool  // what discovery answers
	unknown  error // why it does not
	discover int   // how often it was asked

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

// cutOff ends the watches, and makes requests fail: the cluster can't be reached.
func (a *optionalAPI) cutOff() {
	a.set(func() { a.err = errors.New("unreachable") })
	for _, w := range a.opened() {
		w.stop()
	}
	time.Sleep(10 * time.Second)
}

// follow follows it until the result is called.
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
			t.Fatal("not followed")
		}
		a.cutOff()
		f(g, known)
	})
}

var errNotFound = apierrors.NewNotFound(corev1.Resource("secrets"), "")

// TestAbsent: objects of an optional kind that the API no longer has are dropped once
// discovery confirms that, and nothing else drops them.
func TestAbsent(t *testing.T) {
	for name, c := range map[string]struct {
		err, unknown error
		serves, kept bool
	}{
		"not found, and not in discovery":         {err: errNotFound},
		"not found, and in discovery":             {err: errNotFound, serves: true, kept: true},
		"not found, and discovery fails":          {err: errNotFound, unknown: errors.New("no rights"), kept: true},
		"forbidden, and not in discovery":         {err: apierrors.NewForbidden(corev1.Resource("secrets"), "", nil), kept: true},
		"not allowed, and not in discovery":       {err: apierrors.NewMethodNotSupported(corev1.Resource("secrets"), "list"), kept: true},
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
					t.Errorf("kept: %v, %+v", known.has("a"), g.Health())
				}
				time.Sleep(10 * time.Minute)
				if known.has("a") != c.kept {
					t.Errorf("kept later: %v", known.has("a"))
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

// TestAbsentReturns: a kind that was absent is followed within 10 s of its return, and
// discovery is asked for it with measure.
func TestAbsentReturns(t *testing.T) {
	a := newOptional(nil)
	a.run(t, func(g *Group, known texts) {
		a.set(func() { a.err, a.serves = errNotFound, false })
		for _, after := range []time.Duration{time.Minute, 61 * time.Second, 67 * time.Second, 73 * time.Second} {
			time.Sleep(after)
			a.set(func() { a.err, a.serves = nil, true })
			time.Sleep(10 * time.Second)
			if !known.has("a") {
				t.Errorf("not followed, after %v", after)
			}
			a.cutOff()
			a.set(func() { a.err, a.serves = errNotFound, false })
		}
		var asked int
		a.set(func() { asked = a.discover })
		time.Sleep(10 * time.Minute)
		a.set(func() {
			if n := a.discover - asked; n < 10 || n > int(10*time.Minute/discoveryPause)*5/4 {
				t.Errorf("discovery was asked %d times", n)
			}
		})
	})
}

// TestClear: whoever follows the kind is notified of each object that is dropped, and once
// of all.
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
