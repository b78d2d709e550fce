package check

import (
	"slices"
	"strings"
	"testing"

	"isthmus/internal/adminapi"
)

func TestExports(t *testing.T) {
	on := adminapi.ExportsWriter{Mode: "on"}
	for name, x := range map[string]struct {
		summary *adminapi.ExportsSummary
		want    []string
	}{
		"off": {nil, nil},
		"plan": {&adminapi.ExportsSummary{ExportsWriter: adminapi.ExportsWriter{Mode: "plan"}, Pending: 3},
			[]string{"ok: with --exports=on, 3 Services would be created, updated or deleted for exports"}},
		"unread": {&adminapi.ExportsSummary{ExportsWriter: on, Unread: "why"},
			[]string{"warning: Isthmus cannot determine what to write for exports: why"}},
		"nothing": {&adminapi.ExportsSummary{ExportsWriter: on},
			[]string{"ok: there are no exports to write Services for"}},
		"no imports": {&adminapi.ExportsSummary{ExportsWriter: adminapi.ExportsWriter{Mode: "on", MCS: "none"}},
			[]string{"ok: there are no exports to write Services for",
				"ok: ServiceExports are not imported, because the local cluster does not serve the MCS API; " +
					"exports " +
					"by label work"}},
		"no leader": {&adminapi.ExportsSummary{ExportsWriter: on, Pending: 2},
			[]string{"warning: 2 Services have to be written for exports, but no replica holds the Lease"}},
		"no right": {&adminapi.ExportsSummary{ExportsWriter: adminapi.ExportsWriter{Mode: "on",
			LeaseError: "forbidden"}},
			[]string{"warning: Isthmus cannot use the Lease that decides which replica writes Services for exports: " +
				"forbidden"}},
		"not written": {&adminapi.ExportsSummary{ExportsWriter: adminapi.ExportsWriter{Mode: "on", Holder: "a"},
			Unwritten: map[string][]string{"taken": {"x", "y"}, "failed": {"z"}}},
			[]string{"ok: Services for exports are written by a", "warning: exports that are not written: failed: z",
				"warning: exports that are not written: taken: x; y"}},
	} {
		var got []string
		for _, r := range Judge(Input{Clusters: adminapi.Clusters{Exports: x.summary}}) {
			if r.Check == Exports {
				got = append(got, string(r.Level)+": "+r.Text)
			}
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

// TestNameClashes checks that check names links whose mirrors may get the same name.
func TestNameClashes(t *testing.T) {
	exports := adminapi.ExportsSummary{ExportsWriter: adminapi.ExportsWriter{Mode: "on"}}
	seen := Input{Clusters: adminapi.Clusters{Exports: &exports}}
	for _, name := range []string{"west", "eu-west", "eu-west", "east", "-west", "northwest"} {
		seen.Clusters.Clusters = append(seen.Clusters.Clusters, adminapi.Cluster{Cluster: name})
	}
	var got []string
	for _, r := range Judge(seen) {
		if r.Check == Exports && r.Level == Warning {
			got = append(got, r.Text)
		}
	}
	want := []string{"links west and eu-west: a Service NAME-eu of west is not mirrored, because the name " +
		"NAME-eu-west belongs to eu-west"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	var many []string
	for name := "a"; len(name) < 100; name += "-a" {
		many = append(many, name)
	}
	if got := NameClashes(many); len(got) != maxClashes {
		t.Errorf("got %d results for many clashes", len(got))
	}
}

// TestExportsForbidden checks that a forbidden permission for ServiceImports is named.
func TestExportsForbidden(t *testing.T) {
	exports := adminapi.ExportsSummary{ExportsWriter: adminapi.ExportsWriter{Mode: "on", MCS: "none"}}
	seen := Input{Clusters: adminapi.Clusters{Exports: &exports}}
	seen.Local.API = &adminapi.APIServer{Refused: []adminapi.RefusedRequest{{Verb: "list",
		Resource: "serviceimports.multicluster.x-k8s.io", Status: 403}}}
	const want = "not permitted: serviceimports.multicluster.x-k8s.io (ServiceExports are not imported, but exports " +
		"by label work)"
	if !slices.ContainsFunc(Judge(seen),
		func(r Result) bool { return r.Check == Exports && r.Level == Warning && r.Text == want }) {
		t.Errorf("%q is missing in %+v", want, Judge(seen))
	}
}

// TestServiceExportsForbidden checks that there is a warning about a linked cluster that forbids
// ServiceExports only if Isthmus imports them.
func TestServiceExportsForbidden(t *testing.T) {
	refused := []adminapi.RefusedRequest{{Verb: "list", Resource: "serviceexports.multicluster.x-k8s.io", Status: 403}}
	for mode, test := range map[string]struct {
		exports  *adminapi.ExportsSummary
		fromHere bool
		want     Level
	}{
		"without exports": {nil, false, OK},
		"with exports": {
			&adminapi.ExportsSummary{ExportsWriter: adminapi.ExportsWriter{MCS: "v1beta1"}}, false, Warning,
		},
		"where no kind is installed": {
			&adminapi.ExportsSummary{ExportsWriter: adminapi.ExportsWriter{MCS: "none"}}, false, OK,
		},
		"before an installation":        {nil, true, Warning},
		"while nothing is known of MCS": {&adminapi.ExportsSummary{}, false, Warning},
	} {
		seen := goodInput()
		seen.Clusters.Exports, seen.Exports = test.exports, test.fromHere
		seen.Clusters.Clusters[0].API.Refused = refused
		var got []Level
		for _, r := range Judge(seen) {
			if r.Check == Rights && r.Object == seen.Clusters.Clusters[0].Cluster {
				got = append(got, r.Level)
				if r.Level == Warning && !strings.Contains(r.Hint, "isthmus link") {
					t.Errorf("%s: the hint is %q", mode, r.Hint)
				}
			}
		}
		if !slices.Equal(got, []Level{test.want}) {
			t.Errorf("%s: %v, want %v", mode, got, test.want)
		}
	}
}
