package exports

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/local/exports/plan"
	"isthmus/local/lease"
)

// manyLinks returns linked clusters with 20 exports each.
func manyLinks(links int) (all []plan.Cluster) {
	for i := range links {
		l := link(fmt.Sprint("l", i))
		for n := range 20 {
			l.Exports = append(l.Exports, link("x", shop(fmt.Sprint("web", n))).Exports...)
		}
		all = append(all, l)
	}
	return all
}

// TestSlowPlans checks that 50 objects are written per second even if plans are slow.
func TestSlowPlans(t *testing.T) {
	inWorld(t, nil, func(w *world, _ *leadership) {
		w.slow.Store(int64(100 * time.Millisecond))
		w.change(func() { w.links = manyLinks(10) })
		time.Sleep(5 * time.Second)
		if got := w.take(); len(got) < 190 {
			t.Errorf("%d of 200 are written", len(got))
		}
	})
}

// TestOldPlan checks that writes of an outdated plan stop within a second of a change, however slow
// plans are.
func TestOldPlan(t *testing.T) {
	inWorld(t, nil, func(w *world, _ *leadership) {
		w.slow.Store(int64(500 * time.Millisecond))
		w.change(func() { w.links = manyLinks(20) })
		time.Sleep(2 * time.Second)
		w.change(func() { w.links = nil })
		time.Sleep(lease.MaxBatch + 10*time.Millisecond)
		w.take()
		time.Sleep(5 * time.Second)
		if got := w.take(); len(got) > 0 {
			t.Errorf("after all links were removed: writes %q", got)
		}
	})
}

// TestFreshReadDecides checks that an object that now belongs to somebody else is not written,
// even if an earlier read showed another owner.
func TestFreshReadDecides(t *testing.T) {
	users := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-east", UID: "users"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"a": "b"}},
	}
	untouched := func(t *testing.T, w *world) {
		t.Helper()
		now := w.service("web-east")
		if now != nil {
			now.ResourceVersion = ""
		}
		if got := w.take(); len(got) > 0 || !reflect.DeepEqual(now, users) {
			t.Errorf("writes %q, Service %+v", got, now)
		}
	}
	t.Run("created before the read", func(t *testing.T) {
		inWorld(t, nil, func(w *world, _ *leadership) {
			w.services.put(users)
			w.change(func() {
				w.links = []plan.Cluster{link("east", shop("web"))}
				w.stale[shop("web-east")] = nil
			})
			time.Sleep(time.Minute)
			untouched(t, w)
		})
	})
	t.Run("written Service was replaced", func(t *testing.T) {
		inWorld(t, []plan.Cluster{link("east", shop("web"))}, func(w *world, _ *leadership) {
			time.Sleep(time.Second)
			w.take()
			ours := readService(w.service("web-east"))
			w.change(func() { w.stale[ours.ID] = ours })
			w.edit("web-east", func(o *corev1.Service) { o.UID, o.Labels = "users", nil })
			w.change(func() { w.links[0].Exports = nil })
			time.Sleep(time.Minute)
			if got := w.take(); len(got) > 0 || w.service("web-east") == nil {
				t.Errorf("%q", got)
			}
		})
	})
	t.Run("created between read and create", func(t *testing.T) {
		inWorld(t, nil, func(w *world, _ *leadership) {
			tries := 0
			w.mu.Lock()
			w.before = func(request string, id plan.ID) error {
				if request == "get" {
					return nil
				}
				if tries++; tries > 1 || request != "create" {
					t.Errorf("then %s %v", request, id)
				}
				w.services.put(users)
				return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "services"}, id.Name)
			}
			w.mu.Unlock()
			w.change(func() { w.links = []plan.Cluster{link("east", shop("web"))} })
			time.Sleep(time.Minute)
			if untouched(t, w); tries != 1 {
				t.Errorf("%d writes were tried", tries)
			}
		})
	})
	t.Run("replaced between read and delete", func(t *testing.T) {
		inWorld(t, []plan.Cluster{link("east", shop("web"))}, func(w *world, _ *leadership) {
			time.Sleep(time.Second)
			w.take()
			tries := 0
			w.change(func() {
				w.links[0].Exports = nil
				w.before = func(request string, id plan.ID) error {
					if request == "delete" {
						tries++
						w.services.put(users)
					}
					return nil
				}
			})
			time.Sleep(time.Minute)
			if untouched(t, w); tries != 1 {
				t.Errorf("%d writes were tried", tries)
			}
		})
	})
}

// TestTurns checks that links take turns. A link with many exports must not delay another link.
func TestTurns(t *testing.T) {
	var many []plan.ID
	for i := range 900 {
		many = append(many, plan.ID{Namespace: []string{"shop", "other"}[i%2], Name: fmt.Sprintf("m%03d", i)})
	}
	for i := range many {
		many[i].Namespace = []string{"shop", "other"}[i/240%2]
	}
	inWorld(t, []plan.Cluster{link("a", many[:480]...), link("b", shop("web"))}, func(w *world, _ *leadership) {
		time.Sleep(2 * time.Second)
		got := w.take()
		if !slices.Contains(got, "create shop/web-b") || len(got) > 2*writeRate+writeBurst || len(got) < writeRate {
			t.Errorf("%d writes within 2 s, one for b: %v", len(got), slices.Contains(got, "create shop/web-b"))
		}
		first := strings.Join(got[:6], " ")
		if !strings.Contains(first, "other/") || !strings.Contains(first, "shop/m") {
			t.Errorf("namespaces do not take turns: %s", first)
		}
	})
}

// TestFlapping checks that an export that changes all the time, or appears and disappears, is
// written with increasing delays.
func TestFlapping(t *testing.T) {
	for name, flap := range map[string]func(w *world, i int){
		"its port": func(w *world, i int) {
			w.links = []plan.Cluster{link("east", shop("web"))}
			w.links[0].Exports[0].Service.Ports[0].Number = uint16(80 + i%7%2) // not in step with plans
		},
		"itself": func(w *world, i int) {
			w.links = []plan.Cluster{link("east", []plan.ID{shop("web")}[i%7%2:]...)}
		},
	} {
		inWorld(t, nil, func(w *world, _ *leadership) {
			for i := range 6000 { // a minute
				w.change(func() { flap(w, i) })
				time.Sleep(10 * time.Millisecond)
			}
			// The writes come after 0, 1, 3, 7, 15 and 31 s. At most one more write follows.
			if got := w.take(); len(got) < 4 || len(got) > 7 {
				t.Errorf("%s: %d writes within a minute: %q", name, len(got), got)
			}
		})
	}
}

// TestRun checks that the Writer takes no Lease while there is nothing to write. The Writer
// releases the Lease a minute after the last object was deleted.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, stop := context.WithCancel(t.Context())
		writer := w.writer()
		done := make(chan error)
		go func() { done <- writer.Run(ctx) }()
		holder := func() string {
			l, err := w.leases.CoordinationV1().Leases("linkerd").Get(ctx, leaseName, metav1.GetOptions{})
			if err != nil {
				return "none"
			}
			return *l.Spec.HolderIdentity
		}
		time.Sleep(time.Hour)
		if got := holder(); got != "none" {
			t.Errorf("with nothing to write, the Lease is held by %q", got)
		}
		w.change(func() { w.links = []plan.Cluster{link("east", shop("web"))} })
		time.Sleep(5 * time.Second)
		if got := w.take(); !slices.Equal(got, []string{"create shop/web-east"}) || holder() != "me" {
			t.Errorf("writes %q, Lease held by %q", got, holder())
		}
		w.change(func() { w.links = []plan.Cluster{link("east")} })
		time.Sleep(2 * time.Minute)
		if got := w.take(); !slices.Equal(got, []string{"delete shop/web-east"}) || holder() != "" {
			t.Errorf("writes %q, Lease held by %q", got, holder())
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
	})
}

// TestDeletesWait checks that a Service is not deleted at once while its replacement cannot be
// written.
func TestDeletesWait(t *testing.T) {
	inWorld(t, []plan.Cluster{link("east", shop("web"))}, func(w *world, _ *leadership) {
		time.Sleep(time.Second)
		w.take()
		refuse := true
		w.mu.Lock()
		w.before = func(request string, id plan.ID) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if id.Name == "web-west" && refuse && request != "get" {
				return errors.New("quota")
			}
			return nil
		}
		w.mu.Unlock()
		w.change(func() { w.links = []plan.Cluster{link("east"), link("west", shop("web"))} })
		time.Sleep(2 * time.Second) // the first pass may delete, because no write has failed yet
		w.take()
		w.change(func() { w.links[0] = link("east", shop("web")) })
		time.Sleep(5 * time.Second)
		w.take()
		w.change(func() { w.links[0] = link("east") })
		time.Sleep(2 * time.Second)
		if got := w.take(); len(got) > 0 {
			t.Errorf("while web-west cannot be written: writes %q", got)
		}
		time.Sleep(time.Minute)
		if got := w.take(); !slices.Equal(got, []string{"delete shop/web-east"}) {
			t.Errorf("after web-west could not be written for long: writes %q", got)
		}
		w.change(func() { refuse = false })
		time.Sleep(6 * time.Minute)
		if got := w.take(); !slices.Equal(got, []string{"create shop/web-west"}) {
			t.Errorf("%q", got)
		}
	})
}
