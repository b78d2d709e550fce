package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/budget"
)

// TestRefusedEvent: an event that clusterstore/kube refuses makes the resource unreadable at
// once; it is listed anew after a pause, and healthy only once the watch has lasted.
func TestRefusedEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{names: []string{"a"}}
		calls := a.calls()
		watches := calls.Watch
		var request atomic.Pointer[budget.Request]
		calls.Watch = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			request.Store(budget.From(ctx))
			return watches(ctx, o)
		}
		known := names{}
		group := NewGroup(Options{NoWatchList: true}, New(Kind[*corev1.Secret, bool]{
			Name: "secrets", Needed: true, Calls: calls, Fields: "type=x", Into: known,
			Compact: func(*corev1.Secret) (bool, bool) { return true, true },
		}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); group.Run(ctx, nil) }()
		defer func() { cancel(); <-done }()
		time.Sleep(time.Minute)
		for range 3 {
			request.Load().Fail(budget.Errorf("an event of secrets is larger than 4 MiB"))
			if h := group.Health(); h.Err == nil || !strings.Contains(h.Err.Error(), "secrets: over budget: an event") || h.Lost.IsZero() {
				t.Fatalf("%+v", h)
			}
			a.mu.Lock()
			a.names = append(a.names, fmt.Sprint("later", len(a.names)))
			a.watch.Error(&metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError})
			a.mu.Unlock()
			time.Sleep(overPause - 2*time.Second)
			synctest.Wait()
			if h := group.Health(); objects(group) == len(a.names) || h.Err == nil {
				t.Fatalf("it is tried again at once: %+v", h)
			}
			for range 60 { // until it has been listed, after the pause and a backoff
				if objects(group) == len(a.names) {
					break
				}
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
			}
			if h := group.Health(); objects(group) != len(a.names) || h.Err == nil || !errors.Is(h.Err, budget.ErrOver) {
				t.Fatalf("%d objects, %+v", objects(group), h)
			}
		}
		time.Sleep(overProof + 10*time.Second)
		if h := group.Health(); h.Err != nil || !h.Lost.IsZero() {
			t.Errorf("afterwards: %+v", h)
		}
	})
}

// refused returns a resource of the server. Of each watch it refuses the event after the
// objects.
func (s *server) refused() *Resource {
	s.stream = func(o metav1.ListOptions, w *watch.FakeWatcher, _ int) {
		sendInitial(o, w)
		w.Error(&apierrors.NewInternalError(errors.New("unable to decode an event")).ErrStatus)
	}
	calls := s.calls()
	watches := calls.Watch
	calls.Watch = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		budget.From(ctx).Fail(budget.Errorf("an event of secrets is larger than 4 MiB"))
		return watches(ctx, o)
	}
	return New(Kind[*corev1.Secret, bool]{
		Name: "secrets", Calls: calls, Into: names{}, Compact: func(*corev1.Secret) (bool, bool) { return true, true },
	})
}

// TestRefusedIsNoTrouble: that the gateway ends watches is not shown as something that the
// API server does.
func TestRefusedIsNoTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{noWatchList: true}
		group := NewGroup(Options{NoWatchList: true}, s.refused())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); group.Run(ctx, nil) }()
		defer func() { cancel(); <-done }()
		time.Sleep(5 * time.Minute)
		if h := group.Health().Resources[0]; h.Trouble != "" || h.Err == "" || len(s.opened()) < 2*troubleCount {
			t.Errorf("%d watches: %+v", len(s.opened()), h)
		}
	})
}

// TestRefusedAfterList: an event that is refused while the objects streamed before it are
// put into the Store ends that watch too: nothing is left of it when the Group is stopped.
func TestRefusedAfterList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		group := NewGroup(Options{}, s.refused())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); group.Run(ctx, nil) }()
		select {
		case <-done:
		case <-time.After(10 * time.Minute):
			t.Fatal("it can't be stopped")
		}
		if open := s.opened(); len(open) != 1 || !open[0].IsStopped() {
			t.Errorf("%d watches", len(open))
		}
	})
}
