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

// manyLinks are links with 20 exports each.
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

// TestSlowPlans: where plans take long, 50 are written a second all the same.
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

// TestOldPlan: however long a plan takes, its writes begin for a second at most after something has changed.
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
			t.Errorf("once nothing is linked: %q", got)
		}
	})
}

// A fresh read decides: what is somebody else's by now is left alone, whatever was read before.
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
			t.Errorf("%q, and there is %+v", got, now)
		}
	}
	t.Run("made before it is read", func(t *testing.T) {
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
	t.Run("ours was replaced", func(t *testing.T) {
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
	t.Run("made between read and create", func(t *testing.T) {
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

// Links take turns: one with many exports does not hold up another.
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
			t.Errorf("%d writes within 2 s, of b among them: %v", len(got), slices.Contains(got, "create shop/web-b"))
		}
		first := strings.Join(got[:6], " ")
		if !strings.Contains(first, "other/") || !strings.Contains(first, "shop/m") {
			t.Errorf("namespaces take no turns: %s", first)
		}
	})
}

// An export that changes all the time is written ever less often, and comes and goes no more often.
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
			// after 0, 1, 3, 7, 15 and 31 s, and once more at the most
			if got := w.take(); len(got) < 4 || len(got) > 7 {
				t.Errorf("%s: %d writes within a minute: %q", name, len(got), got)
			}
		})
	}
}

// TestRun: no Lease is taken while there is nothing to write; it is given back a minute after all has gone.
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
			t.Errorf("with nothing to write: held by %q", got)
		}
		w.change(func() { w.links = []plan.Cluster{link("east", shop("web"))} })
		time.Sleep(5 * time.Second)
		if got := w.take(); !slices.Equal(got, []string{"create shop/web-east"}) || holder() != "me" {
			t.Errorf("%q, held by %q", got, holder())
		}
		w.change(func() { w.links = []plan.Cluster{link("east")} })
		time.Sleep(2 * time.Minute)
		if got := w.take(); !slices.Equal(got, []string{"delete shop/web-east"}) || holder() != "" {
			t.Errorf("%q, held by %q", got, holder())
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
	})
}

// Nothing goes while what is to be in its place can't be written.
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
		time.Sleep(2 * time.Second) // the first pass may delete: nothing has failed yet
		w.take()
		w.change(func() { w.links[0] = link("east", shop("web")) })
		time.Sleep(5 * time.Second)
		w.take()
		w.change(func() { w.links[0] = link("east") })
		time.Sleep(2 * time.Second)
		if got := w.take(); len(got) > 0 {
			t.Errorf("while web-west can't be written: %q", got)
		}
		time.Sleep(time.Minute)
		if got := w.take(); !slices.Equal(got, []string{"delete shop/web-east"}) {
			t.Errorf("once it could not be written for long: %q", got)
		}
		w.change(func() { refuse = false })
		time.Sleep(6 * time.Minute)
		if got := w.take(); !slices.Equal(got, []string{"create shop/web-west"}) {
			t.Errorf("%q", got)
		}
	})
}
