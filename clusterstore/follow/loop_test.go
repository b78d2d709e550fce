package follow

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestAfterWatch: a watch that is over goes on from what came last. After one that may have missed something the
// objects are listed.
func TestAfterWatch(t *testing.T) {
	busy, broken, unreachable := apierrors.NewTooManyRequestsError("later"), apierrors.NewInternalError(errors.New("connection reset by peer")), errors.New("connection refused")
	sends := func(err error) func(*scriptedEvents) {
		return func(w *scriptedEvents) { w.fail(err) }
	}
	for name, c := range map[string]struct {
		start error                 // of the first watch
		watch func(*scriptedEvents) // the first one
		next  string
	}{
		"ended after an event": {watch: func(w *scriptedEvents) { w.event(watch.Modified, "2", labelled("a", "")); w.stop() }, next: "watch 2"},
		"ended after a while":  {watch: func(w *scriptedEvents) { time.AfterFunc(emptyWatch, w.stop) }, next: "watch 1"},
		"ended at once":        {watch: (*scriptedEvents).stop, next: "list"},
		"ended by 410":         {watch: sends(gone()), next: "list"},
		"ended by 429":         {watch: sends(busy), next: "watch 1"},
		"ended by 500":         {watch: sends(broken), next: "list"},
		"not begun for 410":    {start: gone(), next: "list"},
		"not begun for 429":    {start: busy, next: "watch 1"},
		"not begun for 500":    {start: broken, next: "list"},
		"without an answer":    {start: unreachable, next: "list"},
	} {
		t.Run(name, func(t *testing.T) {
			var log []string
			s := &scripted{}
			s.onList = func(metav1.ListOptions) (metav1.ListMeta, []item, error) {
				log = append(log, "list")
				return s.all()
			}
			s.onWatch = func(o metav1.ListOptions) error {
				log = append(log, "watch "+o.ResourceVersion)
				if !o.AllowWatchBookmarks || *o.TimeoutSeconds < 300 || *o.TimeoutSeconds > 600 {
					t.Errorf("%+v", o)
				}
				if len(log) == 2 {
					return c.start
				}
				return nil
			}
			s.onEvents = func(_ metav1.ListOptions, w *scriptedEvents, n int) {
				if n == 0 && c.watch != nil {
					c.watch(w)
				}
			}
			s.runNoting(t, inPages, func(g *Group, _ texts, _ func() []string) {
				time.Sleep(5 * time.Second)
				synctest.Wait()
				want := []string{"list", "watch 1", c.next}
				if c.next == "list" {
					want = append(want, "watch 1")
				}
				if h := g.Health(); !slices.Equal(log, want) || h.Err != nil {
					t.Errorf("requests: %q, want %q; %v", log, want, h.Err)
				}
			})
		})
	}
}

// TestOutdatedAtTimes: that a version is too old is no failure, however often, as long as watches begin in between; and
// lists go on to be streamed.
func TestOutdatedAtTimes(t *testing.T) {
	refused := 0
	s := &scripted{
		onList: func(metav1.ListOptions) (metav1.ListMeta, []item, error) {
			t.Error("a list in pages")
			return metav1.ListMeta{}, nil, nil
		},
		onWatch: func(o metav1.ListOptions) error {
			if streamsList(o) {
				return nil
			}
			refused++
			return gone()
		},
		onEvents: func(o metav1.ListOptions, w *scriptedEvents, _ int) {
			sendInitial(o, w)
			time.AfterFunc(time.Minute, w.stop)
		},
	}
	s.runNoting(t, Options{}, func(g *Group, _ texts, _ func() []string) {
		<-g.Synced()
		changed := g.HealthChanged()
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		select {
		case <-changed:
			t.Errorf("its health changes, after %d times", refused)
		default:
		}
		if refused < 15 {
			t.Errorf("refused %d times", refused)
		}
	})
}

// TestListAgain: objects are compacted anew by a list, whether the watch goes on or a list is under way, and the watch after it goes on.
func TestListAgain(t *testing.T) {
	for name, pause := range map[string]time.Duration{"while watched": 0, "while listed": time.Second} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{version: "1", items: []item{labelled("a", "x")}, pause: pause}
			synctest.Test(t, func(t *testing.T) {
				known, now := texts{}, atomic.Bool{}
				k := secrets(s, known)
				k.Compact = func(o *corev1.Secret) (string, bool) { return fmt.Sprint(o.Labels["x"], now.Load()), true }
				r := New(k)
				g := NewGroup(Options{NoWatchList: true}, r)
				defer start(t, g, nil)()
				synctest.Wait()
				now.Store(true)
				r.ListAgain()
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if known["ns/a"] != "xtrue" || s.lists != 2 || len(s.watches) != 2 {
					t.Errorf("%v after %d lists and %d watches", known, s.lists, len(s.watches))
				}
				s.newest().event(watch.Added, "3", labelled("b", "y"))
				if !known.has("b") || s.lists != 2 || g.Health().Err != nil {
					t.Errorf("%v after %d lists: %v", known, s.lists, g.Health().Err)
				}
			})
		})
	}
}
