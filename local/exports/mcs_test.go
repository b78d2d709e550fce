package exports

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/internal/adminapi"
	"isthmus/local/exports/plan"
)

// inMCS runs a leadership in a world that serves the MCS-API. The local cluster has a ServiceExport
// for each name in own, and each link exports web.
func inMCS(t *testing.T, links []string, own []string, f func(w *world, t *leadership)) {
	inWorld(t, nil, func(w *world, t *leadership) {
		for _, name := range own {
			w.exports.put(&mcs.ServiceExport{ObjectMeta: metav1.ObjectMeta{
				Namespace:         "shop",
				Name:              name,
				UID:               "own",
				Generation:        3,
				CreationTimestamp: metav1.NewTime(time.Now().Add(time.Hour)),
			}})
		}
		w.change(func() {
			w.version = "v1beta1"
			for _, name := range links {
				w.links = append(w.links, importing(name, shop("web")))
			}
		})
		f(w, t)
	})
}

// edited changes the object web like another client.
func edited[T pointer[O], O any](w *world, all *kind[T, O], change func(T)) {
	o := all.find("web")
	change(o)
	all.put(o)
	w.change(func() {})
}

func conditionsOf(o *mcs.ServiceExport) (all []string) {
	for _, c := range o.Status.Conditions {
		all = append(all, c.Type+"="+string(c.Status)+" "+c.Reason)
	}
	return all
}

// TestConditions checks that conditions of other controllers stay, and that conditions of Isthmus
// are restored if others change them.
func TestConditions(t *testing.T) {
	inMCS(t, nil, []string{"web"}, func(w *world, _ *leadership) {
		theirs := metav1.Condition{
			Type:               "Theirs",
			Status:             metav1.ConditionUnknown,
			Reason:             "Why",
			LastTransitionTime: metav1.NewTime(time.Unix(1000, 0)),
		}
		edited(w, w.exports, func(o *mcs.ServiceExport) { o.Status.Conditions = []metav1.Condition{theirs} })
		time.Sleep(10 * time.Second)
		w.take()
		o := w.exports.find("web")
		if got := conditionsOf(o); !slices.Equal(got, []string{
			"Theirs=Unknown Why", "Valid=True Valid", "Ready=True Ready", "Conflict=False NoConflicts",
		}) || !o.Status.Conditions[0].LastTransitionTime.Equal(&theirs.LastTransitionTime) ||
			o.Status.Conditions[1].ObservedGeneration != 3 {
			t.Errorf("conditions %q: %+v", got, o.Status.Conditions)
		}
		edited(w, w.exports, func(o *mcs.ServiceExport) { o.Status.Conditions[1].Status = metav1.ConditionFalse })
		time.Sleep(5 * time.Second)
		if got := w.take(); !slices.Equal(got, []string{"status export shop/web"}) ||
			w.exports.find("web").Status.Conditions[1].Status != metav1.ConditionTrue {
			t.Errorf("after another client changed the condition: writes %q", got)
		}
	})
}

// TestConditionsOfTwo checks that conditions that another controller reverts twice are left to that
// controller. The conditions are written again once Isthmus wants other conditions.
func TestConditionsOfTwo(t *testing.T) {
	inMCS(t, nil, []string{"web"}, func(w *world, _ *leadership) {
		undo := func() []string {
			edited(w, w.exports, func(o *mcs.ServiceExport) {
				if len(o.Status.Conditions) > 0 {
					o.Status.Conditions[0].Message = "as the other controller says"
				}
			})
			time.Sleep(2 * maxPause)
			return w.take()
		}
		time.Sleep(10 * time.Second)
		w.take()
		written := []string{"status export shop/web"}
		if got := undo(); !slices.Equal(got, written) {
			t.Errorf("after the first revert: writes %q", got)
		}
		for range 3 {
			if got := undo(); len(got) > 0 {
				t.Errorf("after further reverts: writes %q", got)
			}
		}
		time.Sleep(2 * time.Hour)
		if got := w.take(); len(got) > 0 {
			t.Errorf("two hours later: writes %q", got)
		}
		edited(w, w.exports, func(o *mcs.ServiceExport) { o.Generation = 4 })
		time.Sleep(10 * time.Second)
		if got := w.take(); !slices.Equal(got, written) {
			t.Errorf("with other conditions: writes %q", got)
		}
		edited(w, w.exports, func(o *mcs.ServiceExport) { o.UID, o.Status.Conditions = "another", nil })
		time.Sleep(2 * maxPause)
		if got := w.take(); !slices.Equal(got, written) {
			t.Errorf("for a new ServiceExport of that name: writes %q", got)
		}
	})
}

// TestPruned checks that fields that an older version of a kind drops count as written. If dropped
// fields counted as missing, the object would be written repeatedly.
func TestPruned(t *testing.T) {
	inMCS(t, []string{"west"}, []string{"web"}, func(w *world, leadership *leadership) {
		w.change(func() {
			w.prune = func(o metav1.Object) {
				switch o := o.(type) {
				case *mcs.ServiceImport:
					o.Spec.IPFamilies, o.Status.EndpointSliceObjects, o.Status.Conditions = nil, "", nil
				case *mcs.ServiceExport:
					for i := range o.Status.Conditions {
						o.Status.Conditions[i].ObservedGeneration = 0
					}
				}
			}
		})
		time.Sleep(10 * time.Second)
		got := w.take()
		o := w.imports.find("web")
		if len(got) > 7 || len(o.Spec.IPs) == 0 || len(o.Status.Clusters) != 2 {
			t.Errorf("%q: %+v, %+v", got, o.Spec, o.Status)
		}
		w.change(func() {
			w.before = func(request string, id plan.ID) error {
				t.Errorf("request without a change: %s %v", request, id)
				return nil
			}
		})
		time.Sleep(time.Hour)
		w.change(func() { w.before = nil })
		world, _ := w.read()
		p, _ := plan.Make(world, plan.Memory{})
		changes := Changes(world, p)
		for i := range changes {
			if state, _ := leadership.trouble(&changes[i]); state != "" {
				t.Errorf("%s %v: state %q", changes[i].Verb, changes[i].Object, state)
			}
		}
		if len(changes) != 3 {
			t.Errorf("changes %v", changes)
		}
		// Changed content is still written, and so is content that others have changed.
		w.change(func() {
			w.links = []plan.Cluster{importing("west", shop("web"))}
			w.links[0].Exports[0].Service.Ports[0] = plan.Port{Name: "admin", Protocol: "TCP", Number: 81, Target: "81"}
		})
		time.Sleep(5 * time.Second)
		if got := w.take(); !slices.Contains(got, "update import shop/web") {
			t.Errorf("after another port is exported: writes %q", got)
		}
		edited(w, w.imports, func(o *mcs.ServiceImport) { o.Spec.Ports = nil })
		time.Sleep(5 * time.Second)
		if got := w.take(); !slices.Equal(got, []string{"update import shop/web"}) {
			t.Errorf("after another client removed the port: writes %q", got)
		}
	})
}

// TestImportsForbidden checks a leader without permission to write ServiceImports. The leader still
// writes Services for labels, and writes ServiceImports once the writes are permitted.
func TestImportsForbidden(t *testing.T) {
	inMCS(t, []string{"west"}, nil, func(w *world, leadership *leadership) {
		w.change(func() {
			w.links = append(w.links, link("east", shop("web")))
			w.before = func(request string, id plan.ID) error {
				if strings.HasSuffix(request, " import") && request != "get import" {
					return apierrors.NewForbidden(schema.GroupResource{}, id.Name, errors.New("no right"))
				}
				return nil
			}
		})
		time.Sleep(3 * time.Second)
		w.change(func() { w.links[1].Exports = nil })
		time.Sleep(2 * time.Second)
		if got := w.take(); !slices.Equal(got, []string{"create shop/web-east", "delete shop/web-east"}) {
			t.Errorf("%q", got)
		}
		if state, why := leadership.trouble(&Change{
			Object: Object{Kind: ServiceImport, ID: shop("web")},
		}); state != adminapi.ExportFailed || !strings.Contains(why, "no right") {
			t.Errorf("state %q: %s", state, why)
		}
		w.change(func() { w.before = nil })
		time.Sleep(10 * time.Second)
		if got := w.take(); len(got) < 4 || got[0] != "create import shop/web" {
			t.Errorf("after the permission is granted: writes %q", got)
		}
	})
}

// TestNoStatus checks that a kind without the status subresource, or without the expected version,
// is reported as a problem. Writes are then retried with increasing delays.
func TestNoStatus(t *testing.T) {
	for name, absent := range map[string]string{"no status": "status export", "another version": "get export"} {
		inMCS(t, nil, []string{"web"}, func(w *world, leadership *leadership) {
			tries := 0
			w.change(func() {
				w.before = func(request string, id plan.ID) error {
					if request != absent {
						return nil
					}
					tries++
					return apierrors.NewNotFound(schema.GroupResource{}, id.Name)
				}
			})
			time.Sleep(time.Hour)
			synctest.Wait()
			if state, _ := leadership.trouble(&Change{
				Object: Object{ServiceExport, shop("web"), true},
			}); state != adminapi.ExportFailed || tries > 30 {
				t.Errorf("%s: state %q after %d tries", name, state, tries)
			}
		})
	}
}

// TestImportDeleted checks that a ServiceImport without exports is deleted. The ServiceImport stays
// if another client takes it over between the read and the delete.
func TestImportDeleted(t *testing.T) {
	for _, takenOver := range []bool{false, true} {
		inMCS(t, []string{"west"}, nil, func(w *world, _ *leadership) {
			time.Sleep(10 * time.Second)
			tries := 0
			w.change(func() {
				w.links = []plan.Cluster{importing("west")}
				w.before = func(request string, _ plan.ID) error {
					if request == "delete import" {
						if tries++; takenOver {
							o := w.imports.find("web")
							o.Labels, o.Annotations = nil, nil
							w.imports.put(o)
						}
					}
					return nil
				}
			})
			time.Sleep(time.Minute)
			if there := w.imports.find("web") != nil; there != takenOver || tries != 1 {
				t.Errorf("taken over: %v; exists: %v after %d deletes", takenOver, there, tries)
			}
		})
	}
}

// TestImportOfAnother checks that a fresh read prevents writes of ServiceImports and derived
// Services that others created.
func TestImportOfAnother(t *testing.T) {
	inWorld(t, nil, func(w *world, _ *leadership) {
		users := &mcs.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "users"}}
		w.services.put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-clusterset"}})
		w.imports.put(users)
		w.change(func() {
			w.version = "v1beta1"
			w.links = []plan.Cluster{importing("west", shop("web"))}
			w.stale[shop("web-clusterset")], w.unseen = nil, true
		})
		time.Sleep(time.Minute)
		if got, now := w.take(), w.imports.find("web"); len(got) > 0 || now == nil || now.UID != "users" {
			t.Errorf("writes %q, ServiceImport %+v", got, now)
		}
	})
}

// readiness returns the status and message of the condition Ready of the ServiceImport web and of
// the ServiceExport web.
func (w *world) readiness() (imported, exported string) {
	shown := func(all []metav1.Condition) string {
		c := meta.FindStatusCondition(all, "Ready")
		if c == nil {
			return "none"
		}
		return string(c.Status) + " " + c.Message
	}
	return shown(w.imports.find("web").Status.Conditions), shown(w.exports.find("web").Status.Conditions)
}

// TestRefusedService checks that conditions quote the API server's message while it rejects a
// Service. A new leader changes no condition before it has tried the write.
func TestRefusedService(t *testing.T) {
	refused := func(request string, id plan.ID) error {
		if request != "create" {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, id.Name, errors.New("exceeded quota"))
	}
	const answer = `services "web-clusterset" is forbidden: exceeded quota`
	inMCS(t, nil, []string{"web"}, func(w *world, one *leadership) {
		want := func(when, imported, exported string) {
			t.Helper()
			if i, e := w.readiness(); i != imported || e != exported {
				t.Errorf("%s: the ServiceImport shows %q, the ServiceExport %q", when, i, e)
			}
		}
		w.change(func() { w.before = refused })
		time.Sleep(30 * time.Second)
		want("refused", "False "+answer, "True the Service web-clusterset is not written: "+answer)

		w.take()
		world, _ := w.read()
		world.Attempt = func(string, plan.ID) plan.Attempt { return plan.Attempt{} }
		p, _ := plan.Make(world, plan.Memory{})
		for _, c := range Changes(world, p) {
			if c.Kind != Service {
				t.Errorf("a new leader plans to write %v", c.Object)
			}
		}
		time.Sleep(time.Hour)
		if got := w.take(); len(got) > 0 {
			t.Errorf("the error stayed the same for an hour, but writes are %q", got)
		}

		w.change(func() { w.before = nil })
		time.Sleep(10 * time.Minute)
		want("accepted", "True ", "True the ServiceImport is written")
		if state, _ := one.trouble(
			&Change{Object: Object{Kind: Service, ID: shop("web-clusterset")}},
		); state == adminapi.ExportFailed {
			t.Errorf("state %q", state)
		}
	})
}
