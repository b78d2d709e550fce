package cluster

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// anExport is the value that the hook returns for a Service.
type anExport struct {
	Labels, Annotations map[string]string
	Spec                *corev1.ServiceSpec
}

func newExport(o *corev1.Service) *anExport {
	return &anExport{Labels: copied(o.Labels), Annotations: copied(o.Annotations), Spec: o.Spec.DeepCopy()}
}

func copied(from map[string]string) map[string]string {
	if len(from) == 0 {
		return nil
	}
	to := make(map[string]string, len(from))
	for key, value := range from {
		to[strings.Clone(key)] = strings.Clone(value)
	}
	return to
}

func (e *anExport) isListed() bool { return e.Labels["mirror"] != "" || e.Labels["written"] != "" }

// exporting makes a cluster list Services with the label mirror or written, and count reported
// changes.
func exporting(changes *int) func(*Config) {
	return func(c *Config) {
		c.Exports = &ExportHooks{
			Service: func(o *corev1.Service) any {
				if e := newExport(o); e.isListed() {
					return e
				}
				return nil
			},
			Listed:  func(value any) bool { return value.(*anExport).isListed() },
			Changed: func() { *changes++ },
		}
	}
}

// exportingAll is like exporting, but also caches ServiceExports and ServiceImports. Their values
// are their labels.
func exportingAll(changes *int) func(*Config) {
	return func(c *Config) {
		exporting(changes)(c)
		c.Exports.Service = func(o *corev1.Service) any { return newExport(o) }
		c.Exports.ServiceExport = func(o *mcs.ServiceExport) any { return copied(o.Spec.ExportedLabels) }
		c.Exports.ServiceImport = func(o *mcs.ServiceImport) any { return copied(o.Labels) }
	}
}

func labelled(name string, pairs ...string) *corev1.Service {
	s := aService(name, "http=80")
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		s.Labels = with(s.Labels, key, value)
	}
	return s
}

func aNamespace(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
}

// text renders the exports and the known names. If x is nil, the exports are not known.
func (x *CachedExports) text() string {
	if x == nil {
		return "unknown"
	}
	var all []string
	for _, e := range x.List {
		as := []string{e.ID.String()}
		service, exists := e.Service.(*anExport)
		if exists {
			as = append(as, slices.Sorted(maps.Keys(service.Labels))...)
		}
		if e.ServiceExport != nil {
			as = append(as, "exported")
		}
		if !exists {
			as = append(as, "without Service")
		}
		all = append(all, strings.Join(as, " "))
	}
	if x.Emptied {
		all = append(all, "emptied")
	} else if x.ServiceExports {
		all = append(all, "read")
	}
	for id, i := range x.Imports {
		all = append(all, fmt.Sprint("import ", id, " with ", len(i.(map[string]string))))
	}
	for name := range x.Namespaces {
		all = append(all, "namespace "+name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestExports checks the exports of a linked cluster, and which changes are reported.
func TestExports(t *testing.T) {
	changes := 0
	w := newWorld(t, exporting(&changes))
	expect := func(reported int, want string) {
		t.Helper()
		if got := w.Exports().text(); got != want || changes != reported {
			t.Errorf("%s after %d reports, want %s after %d", got, changes, want, reported)
		}
		changes = 0
	}
	expect(0, "unknown")
	w.put(labelled("plain"))
	expect(1, "")
	w.put(labelled("other"))
	expect(0, "")
	w.put(labelled("a", "mirror=1"), labelled("b", "b=1", "mirror=x"))
	expect(2, "ns/a mirror, ns/b b mirror")
	before := w.Exports()
	same := labelled("a", "mirror=1")
	same.ResourceVersion = "7"
	w.put(same)
	expect(0, "ns/a mirror, ns/b b mirror")
	if w.Exports() != before {
		t.Error("exports were rebuilt although nothing has changed")
	}
	w.put(labelled("a", "mirror=1", "team=x"))
	expect(1, "ns/a mirror team, ns/b b mirror")
	if before.text() != "ns/a mirror, ns/b b mirror" {
		t.Errorf("the exports returned earlier have changed: %s", before.text())
	}
	renumbered := labelled("a", "mirror=1", "team=x")
	renumbered.Spec.Ports[0].Port = 81
	w.put(renumbered)
	expect(1, "ns/a mirror team, ns/b b mirror")
	if !slices.ContainsFunc(
		w.Exports().List,
		func(e Export) bool { return e.Service.(*anExport).Spec.Ports[0].Port == 81 },
	) {
		t.Errorf("the port has not changed: %v", w.Exports().List)
	}
	w.put(labelled("a"))
	expect(1, "ns/b b mirror")
	if w.Exports().cache != nil {
		t.Error("old Exports of a linked cluster would keep its whole cache in memory")
	}
	w.del(labelled("b"), labelled("a"), labelled("plain"), labelled("other"))
	expect(1, "")
	if w.cache.size() > 0 {
		t.Error("removed exports are still cached")
	}
}

// TestOwnExports checks that all names of the local cluster are known, and the Services that
// Isthmus writes. A list takes effect when it ends.
func TestOwnExports(t *testing.T) {
	changes := 0
	var w *world
	meanwhile := make(map[string]bool)
	w = newWorld(t, func(c *Config) {
		withAddresses(c)
		exporting(&changes)(c)
		c.local.ServiceChanged = func(federation.ServiceID) { meanwhile[w.Exports().text()] = true }
	})
	list := func(all ...*corev1.Service) {
		t.Helper()
		var objects []any
		for _, s := range all {
			objects = append(objects, s)
		}
		changes = 0
		clear(meanwhile)
		w.store("services").Replace(objects...)
	}
	list(labelled("web", "mirror=1"))
	if x := w.Exports(); x == nil || x.Namespaces != nil {
		t.Errorf("without Namespaces: %s", x.text())
	}
	w.put(aNamespace("ns"), aNamespace("going"))
	const first = "namespace going, namespace ns, ns/web mirror"
	if got := w.Exports().text(); got != first {
		t.Errorf("got %s, want %s", got, first)
	}
	going := aNamespace("going")
	going.DeletionTimestamp = &metav1.Time{}
	w.put(going)

	list(labelled("api"), labelled("web-federated", "written=1"), labelled("x-east", "written=1", "a=b"))
	const second = "namespace ns, ns/web-federated written, ns/x-east a written"
	if got := w.Exports().text(); got != second || changes != 1 {
		t.Errorf("got %s after %d reports, want %s", got, changes, second)
	}
	if len(meanwhile) != 1 || !meanwhile[first] {
		t.Errorf(
			"while the list replaced the cache, readers saw %q, want the earlier exports %s",
			slices.Collect(maps.Keys(meanwhile)),
			first,
		)
	}
	w.put(labelled("api", "team=x"))
	if changes != 1 {
		t.Error("a change of a Service that is not listed was reported")
	}
	w.put(labelled("new"))
	w.del(labelled("api"), going)
	if got := w.Exports().text(); got != second || changes != 4 {
		t.Errorf("got %s after %d reports", got, changes)
	}
	for name, unlisted := range map[string]bool{"new": true, "api": false, "x-east": false, "never": false} {
		if w.Exports().Unlisted(serviceID("ns/"+name)) != unlisted {
			t.Errorf("ns/%s exists and is not listed: not %v", name, unlisted)
		}
	}
	w.put(labelled("api"), labelled("api", "mirror=1"))
	if w.Exports().Unlisted(serviceID("ns/api")) {
		t.Error("a listed Service counts as not listed")
	}
}

// TestExportIndex compares the index of listed Services with a walk over all Services after random
// changes.
func TestExportIndex(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		changes := 0
		w := newWorld(t, exportingAll(&changes))
		labels := []string{"mirror=1", "mirror=", "written=1", "team=x", "team=y"}
		for range rapid.IntRange(1, 30).Draw(rt, "changes") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name")
			service := labelled(name, rapid.SampledFrom(labels).Draw(rt, "label"))
			before := w.Exports()
			changes = 0
			switch rapid.SampledFrom([]string{"put", "delete", "export", "unexport"}).Draw(rt, "change") {
			case "put":
				w.put(service)
			case "delete":
				w.del(service)
			case "export":
				w.put(aServiceExport(name))
			case "unexport":
				w.del(aServiceExport(name))
			}

			want := make(map[federation.ServiceID]Export)
			for id, e := range w.cache.services.byID {
				if value := e.spec.export(); value != nil && value.(*anExport).isListed() {
					want[id] = Export{ID: id, Service: value}
				}
			}
			if len(w.cache.exports.services) != len(want) {
				rt.Fatalf("the index has %d Services, want %d", len(w.cache.exports.services), len(want))
			}
			for key, value := range w.cache.exports.serviceExports {
				id := serviceID(key)
				one := Export{ID: id, ServiceExport: value}
				if e := w.cache.services.byID[id]; e != nil {
					one.Service = e.spec.export()
				}
				want[id] = one
			}
			now := w.Exports()
			if now == nil {
				continue // no Service has been added yet
			}
			got := make(map[federation.ServiceID]Export)
			for _, e := range now.List {
				got[e.ID] = e
			}
			if len(now.List) != len(want) || !reflect.DeepEqual(got, want) {
				rt.Fatalf("exports %+v, want %+v", now.List, want)
			}
			if before != nil && (changes > 0) != (before != now) {
				rt.Fatalf("%d changes are reported; exports were rebuilt: %v", changes, before != now)
			}
		}
	})
}

// TestSelectorsStale checks that exports are unknown after a change of selectors until Services
// have been relisted. An event before that does not make them known.
func TestSelectorsStale(t *testing.T) {
	changes := 0
	w := newWorld(t, exporting(&changes))
	w.put(labelled("web", "mirror=1"))
	if x := w.Exports(); x == nil || x.text() != "ns/web mirror" {
		t.Fatalf("exports %s", x.text())
	}
	w.RelistServices()
	w.put(labelled("api", "mirror=1"))
	if x := w.Exports(); x != nil {
		t.Errorf("before the list: %s", x.text())
	}
}

// TestNoExports checks that no exports are cached and Namespaces are not listed if exports are
// disabled.
func TestNoExports(t *testing.T) {
	w := newWorld(t, withAddresses)
	w.put(labelled("web", "mirror=1"))
	if s := w.Service(serviceID("ns/web")); s.exported != nil || w.cache.exports != nil || w.Exports() != nil {
		t.Errorf("cached %+v", s.exported)
	}
	exported := []string{"namespaces", "serviceexports", "serviceimports"}
	if slices.ContainsFunc(
		w.Health().Resources,
		func(r adminapi.Resource) bool { return slices.Contains(exported, r.Resource) },
	) {
		t.Error("Namespaces or kinds of the MCS-API are listed")
	}
}

func aServiceExport(name string) *mcs.ServiceExport {
	return &mcs.ServiceExport{
		ObjectMeta: inNS(name),
		Spec:       mcs.ServiceExportSpec{ExportedLabels: map[string]string{"tier": "gold"}},
	}
}

func aServiceImport(name string, labels ...string) *mcs.ServiceImport {
	o := &mcs.ServiceImport{
		ObjectMeta: inNS(name),
		Spec:       mcs.ServiceImportSpec{Type: mcs.ClusterSetIP, IPs: []string{"10.0.0.1"}},
	}
	for _, key := range labels {
		o.Labels = with(o.Labels, key, "x")
	}
	return o
}

// TestServiceExports checks that ServiceExports are joined with the Services of their names in any
// order. Only relevant changes are reported.
func TestServiceExports(t *testing.T) {
	changes := 0
	w := newWorld(t, exportingAll(&changes))
	expect := func(reported int, want string) {
		t.Helper()
		if got := w.Exports().text(); got != want || changes != reported {
			t.Errorf("%s after %d reports, want %s after %d", got, changes, want, reported)
		}
		changes = 0
	}
	w.put(aServiceExport("web"), aServiceExport("later"))
	expect(2, "unknown") // without the Services
	w.put(labelled("web", "mirror=1"), labelled("plain"), labelled("other"))
	expect(1, "ns/later exported without Service, ns/web mirror exported, read")
	w.put(aServiceExport("plain"), labelled("later"))
	const all = "ns/later exported, ns/plain exported, ns/web mirror exported, read"
	expect(2, all)
	other := labelled("other", "team=x")
	other.Spec.Type = corev1.ServiceTypeNodePort
	w.put(other, labelled("new"))
	w.put(aServiceExport("plain"))
	expect(0, all)
	w.put(labelled("plain", "team=x"))
	expect(1, strings.Replace(all, "ns/plain", "ns/plain team", 1))
	w.put(labelled("plain"))
	expect(1, all)
	going := aServiceExport("web")
	going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	w.put(going)
	expect(1, "ns/later exported, ns/plain exported, ns/web mirror, read")
	w.del(labelled("later"), aServiceExport("plain"))
	expect(2, "ns/later exported without Service, ns/web mirror, read")
	w.del(aServiceExport("later"), labelled("plain"), labelled("web"), labelled("other"), labelled("new"))
	if x := w.cache.exports; len(x.services)+len(x.serviceExports)+w.cache.size() > 0 {
		t.Errorf("still cached: %+v", x)
	}
}

// TestOwnImports checks the ServiceImports of the local cluster and the version that they were read
// in.
func TestOwnImports(t *testing.T) {
	changes := 0
	w := newWorld(t, func(c *Config) {
		withAddresses(c)
		exportingAll(&changes)(c)
	})
	w.put(labelled("web"), aNamespace("ns"), aServiceExport("web"))
	x := w.Exports()
	if got := x.text(); got != "namespace ns, ns/web exported, read" || x.Imports != nil || x.MCSVersion != "" {
		t.Errorf("%s, %+v", got, x)
	}
	changes = 0
	ours := aServiceImport("web", "isthmus.io/written-by", "team")
	w.put(ours, aServiceImport("api", "team"))
	const all = "import ns/api with 1, import ns/web with 2, namespace ns, ns/web exported, read"
	if x := w.Exports(); x.text() != all || x.MCSVersion != "v1beta1" || changes != 2 {
		t.Errorf("%s after %d reports, %+v", x.text(), changes, x)
	}
	ours.ResourceVersion = "7"
	before := w.Exports()
	changes = 0
	w.del(aServiceImport("api"))
	w.put(ours)
	x = w.Exports()
	if changes != 1 || x.text() != "import ns/web with 2, namespace ns, ns/web exported, read" ||
		len(before.Imports) != 2 {
		t.Errorf("%s; before %s", x.text(), before.text())
	}
	w.cfg.Client.Sources.MCSVersion = func() string { return "v1alpha1" }
	w.put(ours)
	if x := w.Exports(); x.MCSVersion != "v1alpha1" || len(x.Imports) != 1 {
		t.Errorf("with another version: %q, %s", x.MCSVersion, x.text())
	}
}

// TestServiceExportsForbidden checks that exports by label do not wait for ServiceExports. They
// appear soon after the permission is granted, and stay cached if it is revoked.
func TestServiceExportsForbidden(t *testing.T) {
	inCluster(t, func(c *Config, tr *fakeAPI) {
		exportingAll(new(int))(c)
		tr.set("* serviceexports", forbidden("serviceexports"))
	}, func(r *running) {
		if got := r.Exports().text(); !r.isSynced() || got != "ns/web mirror" {
			t.Fatalf("exports %s", got)
		}
		if h := r.resource("serviceexports"); r.Health().Err != nil || h.Err == "" || h.Needed {
			t.Errorf("%+v, %v", h, r.Health().Err)
		}
		r.create(aServiceExport("web"))
		time.Sleep(time.Hour)
		r.api.set("* serviceexports", nil)
		const all = "ns/web mirror exported, read"
		r.until("ServiceExports are read", time.Minute, func() bool { return r.Exports().text() == all })
		r.api.set("* serviceexports", forbidden("serviceexports"))
		r.api.cut()
		for range 100 {
			time.Sleep(time.Minute)
			if got := r.Exports().text(); got != all {
				t.Fatalf("after the permission was revoked: %s", got)
			}
		}
	}, labelled("web", "mirror=1"))
}

// TestServiceExportsAbsent checks a cluster before the kind is installed and after it is removed.
// The removal takes effect in one step. An error that API discovery does not confirm removes
// nothing.
func TestServiceExportsAbsent(t *testing.T) {
	var seen []string
	inCluster(t, func(c *Config, tr *fakeAPI) {
		exportingAll(new(int))(c)
		tr.set("* serviceexports", apierrors.NewNotFound(schema.GroupResource{Resource: "serviceexports"}, ""))
	}, func(r *running) {
		r.cfg.Exports.Changed = func() { seen = append(seen, r.Exports().text()) }
		if got := r.Exports().text(); !r.isSynced() || got != "emptied, ns/web mirror" {
			t.Fatalf("exports %s", got)
		}
		r.create(aServiceExport("web"))
		r.create(aServiceExport("api"))
		r.api.set("* serviceexports", nil)
		const all = "ns/api exported without Service, ns/web mirror exported, read"
		r.until("the kind is found", 10*time.Second, func() bool { return r.Exports().text() == all })
		r.api.set("discover serviceexports", errors.New("no discovery"))
		r.api.set("* serviceexports", apierrors.NewNotFound(schema.GroupResource{Resource: "serviceexports"}, ""))
		r.api.cut()
		time.Sleep(time.Hour)
		if got := r.Exports().text(); got != all {
			t.Fatalf("before discovery confirms that the kind is absent: %s", got)
		}
		seen = nil
		r.api.set("discover serviceexports", nil)
		r.until("removal confirmed", time.Minute, func() bool { return r.Exports().text() == "emptied, ns/web mirror" })
		time.Sleep(time.Hour)
		if got := slices.Compact(seen); len(got) > 2 || got[len(got)-1] != "emptied, ns/web mirror" {
			t.Errorf("exports seen during the removal: %q", got)
		}
	}, labelled("web", "mirror=1"))
}
