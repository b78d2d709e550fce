package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/local/exports/plan"
)

// labelSelects selects the Services that have that label.
func labelSelects(key string) func(map[string]string) bool {
	return func(labels map[string]string) bool { return labels[key] != "" }
}

// exporting keeps what is labelled mirror or federated. It counts reported changes.
func exporting(changes *int) func(*Config) {
	return func(c *Config) {
		c.Exports = &ExportConfig{
			Selectors: func() plan.Selectors {
				return plan.Selectors{Mirror: labelSelects("mirror"), Federated: labelSelects("federated")}
			},
			Changed: func() { *changes++ },
		}
	}
}

// exportingAll reads ServiceExports too.
func exportingAll(changes *int) func(*Config) {
	return func(c *Config) {
		exporting(changes)(c)
		c.Exports.ServiceExports = true
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
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// text describes what is exported, and what there is; nil: it is not known.
func (x *Exports) text() string {
	if x == nil {
		return "unknown"
	}
	var all []string
	for _, e := range x.List {
		as := e.String()
		if e.Mirror {
			as += " mirror"
		}
		if e.Federated {
			as += " federated"
		}
		if e.Exported != nil {
			as += " exported"
		}
		if e.Service == nil {
			as += " without Service"
		}
		all = append(all, as)
	}
	if x.Emptied {
		all = append(all, "emptied")
	} else if x.ServiceExports {
		all = append(all, "read")
	}
	for id, i := range x.Imports {
		all = append(all, fmt.Sprint("import ", id, " with ", len(i.Labels)))
	}
	for id, s := range x.Services {
		as := " there"
		if s.Name != "" {
			as = fmt.Sprint(" kept with ", len(s.Labels))
		}
		all = append(all, id.String()+as)
	}
	for name := range x.Namespaces {
		all = append(all, "namespace "+name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestExports: what a linked cluster exports, and which changes are reported.
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
	w.put(labelled("a", "mirror=1"), labelled("b", "federated=1", "mirror=x"))
	expect(2, "ns/a mirror, ns/b mirror federated")
	before := w.Exports()
	same := labelled("a", "mirror=1")
	same.ResourceVersion, same.Annotations = "7", map[string]string{}
	w.put(same)
	expect(0, "ns/a mirror, ns/b mirror federated")
	if w.Exports() != before {
		t.Error("exports are made anew though nothing has changed")
	}
	w.put(labelled("a", "mirror=1", "team=x"))
	expect(1, "ns/a mirror, ns/b mirror federated")
	if len(before.List) != 2 || slices.ContainsFunc(before.List, func(e plan.Export) bool { return len(e.Service.Labels) > 2 || e.Service.Labels["team"] != "" }) {
		t.Errorf("what was returned before has changed: %v", before.List)
	}
	renumbered := labelled("a", "mirror=1", "team=x")
	renumbered.Spec.Ports[0].Port = 81
	w.put(renumbered)
	expect(1, "ns/a mirror, ns/b mirror federated")
	if !slices.ContainsFunc(w.Exports().List, func(e plan.Export) bool { return e.Service.Ports[0].Number == 81 }) {
		t.Errorf("the port has not changed: %v", w.Exports().List)
	}
	w.put(labelled("a"))
	expect(1, "ns/b mirror federated")
	w.del(labelled("b"), labelled("a"), labelled("plain"), labelled("other"))
	expect(1, "")
	if w.state.size() > 0 {
		t.Error("something is left behind")
	}
}

// TestExportWhole: a Service is kept whole, except what is excluded; the loops' marks are no less kept then.
func TestExportWhole(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Exports = &ExportConfig{Changed: func() {}, Selectors: func() plan.Selectors {
			all := func(map[string]string) bool { return true }
			return plan.Selectors{
				Mirror: all, ExcludedLabels: func(key string) bool { return key != "keep" },
				ExcludedAnnotations: func(key string) bool { return strings.HasPrefix(key, "retry") },
			}
		}}
	})
	s := labelled("web", "keep=1", "drop=2")
	s.UID, s.Annotations = "u", map[string]string{"retry.linkerd.io/http": "5xx", "config.linkerd.io/opaque-ports": "80"}
	s.Spec.Ports[0].AppProtocol = new("kubernetes.io/h2c")
	loop := labelled("loop", "isthmus.io/written-by=linkerd", "keep=1")
	w.put(s, loop)
	for _, e := range w.Exports().List {
		got := fmt.Sprintf("%s %v %v %v", e.Service.UID, e.Service.Labels, e.Service.Annotations, e.Service.Ports)
		want := `u map[keep:1] map[config.linkerd.io/opaque-ports:80] [{http TCP kubernetes.io/h2c 80 80}]`
		if e.Name == "loop" {
			want = ` map[isthmus.io/written-by:linkerd keep:1] map[] [{http TCP  80 80}]`
		}
		if got != want || e.Service.Traffic != (plan.Traffic{}) {
			t.Errorf("%s: %s, want %s; %+v", e.Name, got, want, e.Service.Traffic)
		}
	}
	if len(w.Exports().List) != 2 {
		t.Error("not both are exported")
	}
}

// TestOwnExports: of the local cluster all names are known, and the Services that were written. What comes in a list shows at its
// end.
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
	list(labelled("web", "federated=1"))
	if got := w.Exports().text(); got != "unknown" {
		t.Errorf("without Namespaces: %s", got)
	}
	w.put(aNamespace("ns"), aNamespace("going"))
	const first = "namespace going, namespace ns, ns/web federated, ns/web kept with 1"
	if got := w.Exports().text(); got != first {
		t.Errorf("got %s, want %s", got, first)
	}
	going := aNamespace("going")
	going.DeletionTimestamp = &metav1.Time{}
	w.put(going)

	list(labelled("api"), labelled("web-federated", "mirror.linkerd.io/mirrored-service=true"), labelled("x-east", "isthmus.io/written-by=linkerd", "a=b"))
	const second = "namespace ns, ns/api there, ns/web-federated kept with 1, ns/x-east kept with 2"
	if got := w.Exports().text(); got != second || changes != 1 {
		t.Errorf("got %s after %d reports, want %s", got, changes, second)
	}
	if len(meanwhile) != 1 || !meanwhile[first] {
		t.Errorf("while the list was put into the state, others saw %q, want what they had seen before: %s", slices.Collect(maps.Keys(meanwhile)), first)
	}
	w.put(labelled("api", "team=x"))
	if changes != 1 {
		t.Error("a Service that is neither exported nor written was reported")
	}
	w.put(labelled("new"))
	w.del(labelled("api"), going)
	if got := w.Exports().text(); got != "namespace ns, ns/new there, ns/web-federated kept with 1, ns/x-east kept with 2" || changes != 4 {
		t.Errorf("got %s after %d reports", got, changes)
	}
}

// TestSelectorsStale: an event that comes before Services have been listed anew does not make what was judged by other selectors
// all that there is.
func TestSelectorsStale(t *testing.T) {
	changes := 0
	w := newWorld(t, exporting(&changes))
	w.put(labelled("web", "mirror=1"))
	if x := w.Exports(); x == nil || x.text() != "ns/web mirror" {
		t.Fatalf("exports %s", x.text())
	}
	w.SelectorsChanged()
	w.put(labelled("api", "mirror=1"))
	if x := w.Exports(); x != nil {
		t.Errorf("before the list: %s", x.text())
	}
}

// TestNoExports: without them nothing is kept, and Namespaces are not read.
func TestNoExports(t *testing.T) {
	w := newWorld(t, withAddresses)
	w.put(labelled("web", "federated=1", "isthmus.io/written-by=linkerd"))
	if s := w.Service(serviceID("ns/web")); s.exported != nil || w.state.exports != nil || w.Exports() != nil {
		t.Errorf("kept %+v", s.exported)
	}
	exported := []string{"namespaces", "serviceexports", "serviceimports"}
	if slices.ContainsFunc(w.Health().Resources, func(r adminapi.Resource) bool { return slices.Contains(exported, r.Resource) }) {
		t.Error("Namespaces, or kinds of the MCS-API, are read")
	}
}
