package admin

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/internal/adminapi"
	"isthmus/local/exports"
	"isthmus/local/exports/plan"
)

// exported is an ExportsSource with a fixed world, in which Linkerd's service mirrors have not run
// for a long time.
type exported struct{ world *plan.World }

func (e exported) World() (plan.World, bool) {
	w := *e.world
	w.Now = time.Now()
	return w, w.Services != nil
}

func (exported) Writer() *exports.Writer { return nil }

func (exported) Notes() []string { return []string{"Links can't be read"} }

func shopService(name string, number uint16, labels map[string]string) *plan.Service {
	return &plan.Service{
		ID:         plan.ID{Namespace: "shop", Name: name},
		UID:        "u",
		Type:       "ClusterIP",
		ClusterIPs: []string{"10.0.0.1"},
		Labels:     labels,
		Ports:      []plan.Port{{Name: "http", Protocol: "TCP", Number: number, Target: "8080"}},
	}
}

// exportingShop returns a world in which east exports web and taken. west exports web with another
// port.
func exportingShop() *plan.World {
	all, err := plan.ParsePatterns("*")
	if err != nil {
		panic(err)
	}
	cluster := func(name string, services ...*plan.Service) plan.Cluster {
		c := plan.Cluster{
			Name:                 name,
			Domain:               "cluster.local",
			Synced:               true,
			ServiceExportsSynced: true,
			LinkSettings:         plan.LinkSettings{Allow: all},
		}
		for _, s := range services {
			c.Exports = append(
				c.Exports,
				plan.Export{ID: s.ID, Service: s, Mirror: name == "east", Federated: s.Name == "web"},
			)
		}
		return c
	}
	users := shopService("taken-east", 80, nil)
	users.Selector = true
	web := shopService("web", 80, map[string]string{"team": "a"})
	return &plan.World{
		Clusters: []plan.Cluster{
			cluster(""),
			cluster("east", shopService("taken", 80, nil), web),
			cluster("west", shopService("web", 8080, nil)),
		},
		Namespaces: map[string]bool{"shop": true},
		Services:   map[plan.ID]*plan.Service{users.ID: users},
		LeaseOf:    func(string) plan.Lease { return plan.Lease(0) },
		Settings:   plan.Settings{Controller: "linkerd", IPv4Only: true, UnlinkedAfter: time.Second, Labels: true},
	}
}

// testExports returns a report of a world that computes each page again.
func testExports(world *plan.World) *ExportsReport {
	e := NewExportsReport(exported{world})
	e.now = newShared(0, 0, e.look)
	return e
}

func TestExportsPage(t *testing.T) {
	store := exportingShop()
	e := testExports(store)
	ask := func(query string) (page adminapi.Exports) {
		t.Helper()
		w := httptest.NewRecorder()
		h := exportsHandler{&Sources{Exports: e, Replica: func() adminapi.Replica { return adminapi.Replica{} }}}
		h.ServeHTTP(w, httptest.NewRequest("GET", "/debug/exports"+query, nil))
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		return page
	}
	states := func(page adminapi.Exports) (all []string) {
		for _, x := range page.Exports {
			all = append(all, strings.Join([]string{x.Cluster, x.Export, x.Object, x.State}, " "))
		}
		return all
	}
	changes := func(page adminapi.Exports) (all []string) {
		for _, c := range page.Changes {
			all = append(all, c.Verb+" "+c.Object)
		}
		return all
	}
	all := ask("")
	if want := []string{"east shop/taken shop/taken-east taken",
		"east shop/web shop/web-federated would be written", "east shop/web shop/web-east would be written",
		"west shop/web shop/web-federated would be written"}; !slices.Equal(
		states(all),
		want,
	) {
		t.Errorf("exports %q, want %q", states(all), want)
	}
	if want := []string{"create shop/web-east", "create shop/web-federated"}; !slices.Equal(changes(all), want) ||
		len(all.Written) > 0 {
		t.Errorf("changes %q, want %q; written %q", changes(all), want, all.Written)
	}
	if len(all.Conflicts) != 1 || all.Conflicts[0].Object != "shop/web-federated" {
		t.Errorf("conflicts %+v", all.Conflicts)
	}
	if want := []string{"Links can't be read"}; !slices.Equal(all.Writer.Notes, want) {
		t.Errorf("notes %q", all.Writer.Notes)
	}
	if got := ask("?service=shop/taken"); len(got.Exports) != 1 || len(got.Changes)+len(got.Conflicts) > 0 {
		t.Errorf("page of shop/taken: %+v", got)
	}
	if got := ask("?service=web-east"); len(got.Exports) != 1 || len(got.Changes) != 1 {
		t.Errorf("page of web-east: %+v", got)
	}
	if got := ask("?service=shop/"); !reflect.DeepEqual(got, all) {
		t.Errorf("page of namespace shop: %+v, want that of all: %+v", got, all)
	}
	if got := ask("?service=other/&service=nothing"); len(got.Exports)+len(got.Changes)+len(got.Conflicts) > 0 {
		t.Errorf("page of another namespace: %+v", got)
	}

	// Planned objects that are already correct need no change. Objects that others have changed do,
	// but labels of others stay.
	v := e.look()
	for _, c := range v.changes {
		store.Services[c.ID] = c.After.(*plan.Service)
	}
	mirror := store.Services[plan.ID{Namespace: "shop", Name: "web-east"}]
	mirror.Labels["users"], mirror.Ports = "own", nil
	got := ask("")
	want := []adminapi.ExportChange{
		{
			Verb:       "update",
			ObjectKind: "Service",
			Object:     "shop/web-east",
			Kind:       "mirror",
			Of:         "shop/web",
			Fields:     []adminapi.ExportField{{Field: "port 80/TCP", After: "to 8080, name http"}},
		},
	}
	if !reflect.DeepEqual(got.Changes, want) {
		t.Errorf("changes %+v, want %+v", got.Changes, want)
	}
	if want := []string{"shop/web-east", "shop/web-federated"}; !slices.Equal(got.Written, want) ||
		got.Exports[1].State != "written" {
		t.Errorf("written %q, want %q; exports %q", got.Written, want, states(got))
	}
	if got := ask("?service=shop/web").Written; len(got) != 2 {
		t.Errorf("objects written for shop/web: %q", got)
	}
	store.Clusters[1].Exports = nil
	if got := changes(ask("?service=web-east")); !slices.Equal(got, []string{"delete shop/web-east"}) {
		t.Errorf("after the export was removed: %q", got)
	}
	e.source = exported{new(plan.World)}
	if got := ask(""); got.Unread == "" || len(got.Exports) > 0 {
		t.Errorf("before all kinds are listed: %+v", got)
	}
}

// TestExportsPageIsBounded checks that a hostile cluster cannot make the page larger than clients
// accept.
func TestExportsPageIsBounded(t *testing.T) {
	v := testExports(exportingShop()).look()
	large := shopService("web", 80, map[string]string{"a": strings.Repeat("x", 20_000)})
	v.changes = nil
	for range 1000 {
		v.changes = append(v.changes, exportChange{Change: exports.Change{Verb: exports.Create, After: large}})
	}
	v.plan.Verdicts = slices.Repeat(v.plan.Verdicts[:1], maxExports+7)
	v.plan.Conflicts = slices.Repeat([]plan.Conflict{{Message: strings.Repeat("x", 20_000)}}, 100_000)
	page := newExports(v, nil)
	if len(page.Conflicts)+page.MoreConflicts != 100_000 || page.MoreConflicts == 0 {
		t.Errorf("%d conflicts, %d more", len(page.Conflicts), page.MoreConflicts)
	}
	if text := encode(page).text; len(text) > 16<<20 || len(page.Changes)+page.MoreChanges != 1000 ||
		page.MoreChanges == 0 ||
		page.MoreExports != 7 {
		t.Errorf(
			"%d bytes, %d changes and %d more, %d exports more",
			len(text),
			len(page.Changes),
			page.MoreChanges,
			page.MoreExports,
		)
	}
}

func TestExportMetrics(t *testing.T) {
	e := testExports(exportingShop())
	want, err := os.ReadFile("testdata/exports.metrics")
	if err != nil {
		t.Fatal(err)
	}
	if err := testutil.CollectAndCompare(e, bytes.NewReader(want)); err != nil {
		t.Error(err)
	}

	e.source = exported{new(plan.World)}
	unknown, err := os.ReadFile("testdata/exports-unknown.metrics")
	if err != nil {
		t.Fatal(err)
	}
	if err := testutil.CollectAndCompare(e, bytes.NewReader(unknown)); err != nil {
		t.Error(err)
	}
}

func TestExportsSummary(t *testing.T) {
	e := testExports(exportingShop())
	got := e.summary()
	if got == nil || got.Pending != 2 || got.Mode != "plan" ||
		!reflect.DeepEqual(
			got.Unwritten,
			map[string][]string{
				"taken": {"shop/taken-east of east (the Service taken-east is not managed by this installation)"},
			},
		) {
		t.Errorf("%+v", got)
	}
	if (*ExportsReport)(nil).summary() != nil {
		t.Error("there is a summary although exports are off")
	}
}

// TestExportsPageOfImports checks that local and linked ServiceExports are planned as a
// ServiceImport and its Service, once the kinds exist.
func TestExportsPageOfImports(t *testing.T) {
	store := exportingShop()
	web := plan.ID{Namespace: "shop", Name: "web"}
	for i, c := range store.Clusters {
		store.Clusters[i].Exports = nil
		if c.Name != "east" {
			store.Clusters[i].Exports = []plan.Export{
				{ID: web, Service: shopService("web", 80, nil), Exported: &plan.ServiceExport{UID: c.Name}},
			}
		}
	}
	e := testExports(store)
	store.Settings.ServiceExports = true
	store.Settings.ClusterName = "local"
	for version, want := range map[string][]string{
		"": {"none", "local import shop/web-clusterset no serviceimports",
			"west import shop/web-clusterset no serviceimports"},
		"v1beta1": {"v1beta1", "local import shop/web-clusterset would be written",
			"west import shop/web-clusterset would be written", "create Service shop/web-clusterset",
			"create ServiceImport shop/web", "status ServiceExport shop/web"},
	} {
		store.MCSVersion, store.Imports = version, make(map[plan.ID]*plan.ServiceImport)
		page := newExports(e.look(), nil)
		got := []string{page.Writer.MCS}
		for _, x := range page.Exports {
			got = append(got, x.Cluster+" "+x.Kind+" "+x.Object+" "+x.State)
		}
		for _, c := range page.Changes {
			got = append(got, c.Verb+" "+c.ObjectKind+" "+c.Object)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestExportFields checks the fields that a change of an object or its status shows.
func TestExportFields(t *testing.T) {
	valid := []metav1.Condition{{Type: "Valid", Status: "True", Reason: "Valid", Message: "it is"}}
	i := &plan.ServiceImport{
		Type: "ClusterSetIP", IPs: []string{"10.96.0.1"}, Clusters: []string{"local", "west"},
		EndpointSliceObjects: "Absent", Conditions: valid,
		Ports: []plan.Port{{Name: "http", Protocol: "TCP", Number: 80}},
	}
	for _, c := range []struct {
		of     any
		status bool
		want   map[string]string
	}{
		{
			shopService("web", 80, map[string]string{"a": ""}),
			false,
			map[string]string{
				"type":                  "ClusterIP",
				"label a":               `""`,
				"port 80/TCP":           "to 8080, name http",
				"internalTrafficPolicy": "",
				"trafficDistribution":   "",
			},
		},
		{(*plan.Service)(nil), false, map[string]string{}},
		{
			i,
			false,
			map[string]string{
				"type":                  "ClusterSetIP",
				"ips":                   "10.96.0.1",
				"port 80/TCP":           "name http",
				"internalTrafficPolicy": "",
				"trafficDistribution":   "",
			},
		},
		{i, true, map[string]string{
			"clusters": "local, west", "endpointSliceObjects": "Absent", "condition Valid": "true Valid it is",
		}},
		{valid, true, map[string]string{"condition Valid": "true Valid it is"}},
	} {
		if got := exportFields(c.of, c.status); !maps.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.of, got, c.want)
		}
	}
}

// TestExportsPageOfOneName checks that the page of one export does not depend on whether a Service
// is written for the export.
func TestExportsPageOfOneName(t *testing.T) {
	web := plan.ID{Namespace: "shop", Name: "web"}
	written := func(service string) *plan.Service {
		o := shopService(service, 80, map[string]string{"isthmus.io/written-by": "linkerd"})
		o.Annotations = map[string]string{
			"isthmus.io/written-as":                    "Service shop/" + service,
			"multicluster.linkerd.io/remote-discovery": "web@west",
		}
		return o
	}
	for name, c := range map[string]struct {
		change func(store *plan.World)
		states []string
		object string // of the conflict
	}{
		"headless": {func(store *plan.World) {
			for i := range store.Clusters[1:] {
				store.Clusters[i+1].Exports[0].Service.ClusterIPs = []string{"None"}
			}
			store.Clusters[1].Exports[0].Exported.Labels = map[string]string{"team": "a"}
		}, []string{"shop/web would be written", "shop/web would be written"}, "shop/web"},
		"taken": {func(store *plan.World) {
			store.Services[plan.ID{Namespace: "shop", Name: "web-clusterset"}] = shopService("web-clusterset", 80, nil)
		}, []string{"shop/web-clusterset taken", "shop/web-clusterset taken"}, "shop/web-clusterset"},
		"ServiceImport taken": {func(store *plan.World) {
			store.Imports[web] = &plan.ServiceImport{ID: web}
		}, []string{"shop/web-clusterset taken", "shop/web-clusterset taken"}, "shop/web-clusterset"},
		"left to Linkerd": {func(store *plan.World) {
			for i := range store.Clusters[1:] {
				c := &store.Clusters[i+1]
				c.Lease, c.Exports[0].Exported, c.Exports[0].Federated = plan.Held, nil, true
			}
		}, []string{"shop/web-federated left to linkerd", "shop/web-federated left to linkerd"}, "shop/web-federated"},
		"no usable port": {func(store *plan.World) {
			for i := range store.Clusters[1:] {
				store.Clusters[i+1].Exports[0].Service.Ports[0].Number = 0
			}
			store.Clusters[1].Exports[0].Exported.Labels = map[string]string{"team": "a"}
		}, []string{"shop/web-clusterset no usable port", "shop/web-clusterset no usable port"}, "shop/web-clusterset"},
		"left to Linkerd, and written before": {func(store *plan.World) {
			store.Services[plan.ID{Namespace: "shop", Name: "web-federated"}] = written("web-federated")
			for i := range store.Clusters[1:] {
				c := &store.Clusters[i+1]
				c.Lease, c.Exports[0].Exported, c.Exports[0].Federated = plan.Held, nil, true
			}
		}, []string{"shop/web-federated left to linkerd", "shop/web-federated left to linkerd"}, "shop/web-federated"},
	} {
		t.Run(name, func(t *testing.T) {
			store := exportingShop()
			store.MCSVersion = "v1beta1"
			store.Imports = make(map[plan.ID]*plan.ServiceImport)
			store.Services = make(map[plan.ID]*plan.Service)
			for i, number := range []uint16{80, 8080} {
				store.Clusters[i+1].Exports = []plan.Export{{
					ID:       web,
					Service:  shopService("web", number, nil),
					Exported: &plan.ServiceExport{UID: "u"},
				}}
			}
			c.change(store)
			e := testExports(store)
			store.Settings.ServiceExports = true
			store.Settings.ClusterName = "local"
			v := e.look()
			all := newExports(v, []string{"shop/"})
			for _, name := range []string{"web", "shop/web", c.object} {
				if got := newExports(v, []string{name}); !reflect.DeepEqual(got, all) {
					t.Errorf("page of %s:\n%+v\npage of the namespace:\n%+v", name, got, all)
				}
			}
			var states []string
			for _, x := range all.Exports {
				states = append(states, x.Object+" "+x.State)
			}
			if !slices.Equal(states, c.states) {
				t.Errorf("states %q, want %q", states, c.states)
			}
			if len(all.Conflicts) == 0 || all.Conflicts[0].Object != c.object {
				t.Errorf("conflicts %+v, want conflicts of %s", all.Conflicts, c.object)
			}
			if len(all.Written) != len(store.Services) && name != "taken" {
				t.Errorf("written: %q", all.Written)
			}
		})
	}
}
