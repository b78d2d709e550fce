package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// api has Secrets, and fails while err is set.
type api struct {
	mu    sync.Mutex
	err   error
	names []string
	watch *watch.FakeWatcher
}

func (a *api) calls() calls {
	return calls{
		List: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.err != nil || o.FieldSelector != "type=x" {
				return nil, errors.Join(a.err, fmt.Errorf("selector %q", o.FieldSelector))
			}
			list := &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
			for _, name := range a.names {
				list.Items = append(list.Items, *secret(name))
			}
			return list, nil
		},
		Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.watch = watch.NewFake()
			return a.watch, a.err
		},
	}
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "2"}}
}

// names is a Store that only keeps keys.
type names map[string]bool

func (n names) Put(key string, _ bool) Effect {
	if n[key] {
		return Same
	}
	n[key] = true
	return Added
}
func (n names) Get(key string) (bool, bool)  { return n[key], n[key] }
func (n names) Drop(key string) bool         { was := n[key]; delete(n, key); return was }
func (n names) PrepareDrop(string)           {}
func (n names) Keys(yield func(string) bool) { maps.Keys(n)(yield) }

// TestApplied: Applied is called once for a list and once for each event, and failures
// are reported until the objects can be read again. In the health they have passed
// through Printable, in Report they have not.
func TestApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, known := &api{names: []string{"a", "b"}, err: errors.New("refused by s3cret")}, names{}
		var mu sync.Mutex
		var seen []string
		see := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, what)
		}
		failing := false
		r := New(Kind[*corev1.Secret, bool]{
			Name: "secrets", Needed: true, Source: a.calls().source(), Fields: "type=x", Into: known,
			Compact: func(*corev1.Secret) (bool, bool) { return true, true }, Same: sameAs[bool],
			Applied: func() { see(fmt.Sprint(slices.Sorted(maps.Keys(known)))) },
			Report: func(err error) {
				if now := err != nil; now != failing {
					failing = now
					see(fmt.Sprint("failing ", now))
				}
			},
		})
		g := NewGroup(Options{NoWatchList: true, Printable: func(error) error { return errors.New("refused") }}, r)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); g.Run(ctx, func() { see("synced") }) }()
		expect := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(seen, want) {
				t.Errorf("%s: %q, want %q", what, seen, want)
			}
			seen = nil
		}
		expect("at first", "failing true")
		if h := g.Health(); h.Err == nil || h.Err.Error() != "secrets: refused" || h.Resources[0].Err != "refused" || h.Resources[0].Synced {
			t.Errorf("health: %+v", h)
		}
		a.mu.Lock()
		a.err = nil
		a.mu.Unlock()
		time.Sleep(10 * time.Second)
		expect("listed", "failing false", "[ns/a ns/b]", "synced")
		if h := g.Health(); h.Err != nil || h.Resources[0].Objects != 2 || !h.Resources[0].Synced {
			t.Errorf("health: %+v", h)
		}
		a.watch.Add(secret("c"))
		expect("one more", "[ns/a ns/b ns/c]")
		a.watch.Delete(secret("a"))
		expect("one less", "[ns/b ns/c]")
		if n := g.Health().Resources[0].Objects; n != 2 {
			t.Errorf("%d objects", n)
		}
		cancel()
		<-done
	})
}
