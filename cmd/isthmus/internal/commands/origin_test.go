package commands

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"isthmus/cmd/isthmus/internal/check"
	"isthmus/internal/adminapi"
)

// anotherVersion serves the pages of a replica of another version, whose answers have these
// headers, and returns its address. An older replica sends no headers. changed has other contents
// of pages. An empty page is missing.
func anotherVersion(t *testing.T, headers, changed map[string]string) string {
	t.Helper()
	clusters, services := goodPages()
	explained := adminapi.Explanation{Authority: "web.shop.svc.cluster.local:80", Defined: true}
	explained.Set.Endpoints = 1
	pages := map[string]string{
		"/debug/clusters": jsonOf(clusters),
		"/debug/services": cmp.Or(strings.TrimPrefix(jsonOf(services), "null"), "[]"),
		"/debug/exports":  jsonOf(adminapi.Exports{Writer: adminapi.ExportsWriter{Mode: "on"}}),
		"/debug/explain":  jsonOf(explained),
		"/debug/version":  jsonOf(adminapi.Build{Version: "v0.0.1", Commit: "abc of yesterday"}),
	}
	maps.Copy(pages, changed)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		if pages[r.URL.Path] == "" {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, pages[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// otherVersions are the headers of replicas whose pages this program can't judge, and what is said
// of each.
var otherVersions = map[string]struct {
	headers map[string]string
	want    string
}{
	"older": {nil, "it is older than this program, and its pages have no format number: " +
		"its version is v0.0.1, that of this program v1.2.3"},
	"newer": {
		map[string]string{adminapi.FormatHeader: "2", adminapi.VersionHeader: "v9.0.0"},
		`its pages have the format 2, and this program knows the format 1: its version is v9.0.0, ` +
			`that of this program v1.2.3`},
	"newer, and no release": {
		map[string]string{
			adminapi.FormatHeader: "2", adminapi.VersionHeader: "(devel)", adminapi.CommitHeader: "def of today",
		},
		`its pages have the format 2, and this program knows the format 1: its version is (devel) of commit def, ` +
			`that of this program v1.2.3`},
	"hostile": {
		map[string]string{adminapi.FormatHeader: "\u009b2J", adminapi.VersionHeader: "\u202e"},
		`its pages have the format "\u009b2J", and this program knows the format 1: its version is "\u202e", ` +
			`that of this program v1.2.3`},
}

// TestOtherVersion: no command judges pages of another version, and each names both versions.
func TestOtherVersion(t *testing.T) {
	for name, other := range otherVersions {
		t.Run(name, func(t *testing.T) {
			admin := anotherVersion(t, other.headers, nil)
			for _, verb := range []string{"check", "clusters", "services"} {
				code, out, errs := call(verb, "--admin", admin)
				if !strings.Contains(out, other.want) || strings.Contains(out, "agree") {
					t.Errorf("isthmus %s: exit code %d, %s\n%s", verb, code, errs, out)
				}
				if (code == 0) != (verb != "check") {
					t.Errorf("isthmus %s: exit code %d, %s", verb, code, errs)
				}
			}

			mustBeUnchecked(t, admin)
		})
	}
}

// mustBeUnchecked fails the test if check judges anything of the replica but that it answers.
func mustBeUnchecked(t *testing.T, admin string) {
	t.Helper()
	_, out, errs := call("check", "--admin", admin, "-o", "json")
	var found adminapi.CheckOutput
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatal(err, errs)
	}
	for _, r := range found.Results {
		unchecked := r.Check == checkVersion && r.Level == check.Unchecked && r.Hint != ""
		answers := r.Check == checkAnswers && r.Level == check.OK
		if !unchecked && !answers {
			t.Errorf("judged: %+v", r)
		}
	}
	if found.Unchecked != 1 || !strings.Contains(errs, "no check could be done") {
		t.Errorf("%d results are unchecked: %s", found.Unchecked, errs)
	}
}

// TestUnreadablePages: the version explains why a replica lacks a page, or has one that the program
// can't decode.
func TestUnreadablePages(t *testing.T) {
	for name, other := range otherVersions {
		problems := map[string]string{"answers 404 Not Found": "", "can't be read": `{"services": 1}`}
		for problem, page := range problems {
			admin := anotherVersion(t, other.headers, map[string]string{"/debug/services": page})
			code, _, errs := call("services", "--admin", admin)
			if code != 1 || !strings.Contains(errs, problem) || !strings.Contains(errs, other.want) {
				t.Errorf("%s: exit code %d, %s", name, code, errs)
			}
			mustBeUnchecked(t, admin)
		}
	}

	admin := anotherVersion(t, nil, map[string]string{"/debug/exports": ""})
	if code, _, errs := call("exports", "--admin", admin); code != 1 || !strings.Contains(errs, "--exports=off") {
		t.Errorf("exit code %d, %s", code, errs)
	}

	// A server that is no replica has no version.
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	admin = strings.TrimPrefix(server.URL, "http://")
	const another = "is it the admin server of an Isthmus gateway?"
	if code, _, errs := call("services", "--admin", admin); code != 1 || !strings.Contains(errs, another) {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// TestUnjudgedPages: exports and explain name the versions. If the program does not know the format
// number, an exit code that answers a question is 1.
func TestUnjudgedPages(t *testing.T) {
	for name, other := range otherVersions {
		admin := anotherVersion(t, other.headers, nil)
		for _, command := range []string{"exports", "exports --diff", "exports --written", "explain shop/web"} {
			code, out, errs := call(append(strings.Fields(command), "--admin", admin)...)
			refused := other.headers != nil && command != "exports"
			if (code == 1) != refused || !strings.Contains(out+errs, other.want) {
				t.Errorf("%s: isthmus %s: exit code %d, %s%s", name, command, code, out, errs)
			}
		}
	}
}

// TestReplicasOfTwoVersions: the replicas of the program's version are judged and shown; the other
// one is unchecked.
func TestReplicasOfTwoVersions(t *testing.T) {
	clusters, services := goodPages()
	good := &check.Seen{Clusters: clusters, Services: services}
	older := Origin{Build: adminapi.Build{Version: "v0.0.1"}}
	s := newCheckState(adminapi.CheckedReplicas)
	s.merge([]Answer[check.Seen]{
		{Replica: "a", Value: new(check.Seen), Origin: older}, {Replica: "b", Value: good, Origin: thisFormat},
	}, testBuild)
	s.finish()
	if s.Unchecked != 1 || s.Failures+s.Warnings != 0 || s.unknown() {
		t.Errorf("%+v", s.Results)
	}

	others := []adminapi.OtherReplica{{Gateway: "a", Unchecked: older.Unchecked(testBuild)}}
	want := []string{"a is not compared: " + otherVersions["older"].want}
	if summary, lines := compared(others, ""); strings.Contains(summary, "agree") || !slices.Equal(lines, want) {
		t.Errorf("%s, %q", summary, lines)
	}
}

// TestCheckCommits: two builds of no release differ in their commits only.
func TestCheckCommits(t *testing.T) {
	devel := adminapi.Build{Version: "(devel)", Commit: "abc of today"}
	levels := map[string]check.Level{"abc of today": check.OK, "def of today": check.Warning, "": check.Warning}
	for commit, want := range levels {
		s := new(checkState)
		s.addVersion(adminapi.CheckedReplica{Gateway: "a", Version: "(devel)", Commit: commit}, devel)
		if r := s.Results[0]; r.Level != want || want == check.Warning && !strings.Contains(r.Text, "abc") {
			t.Errorf("commit %q: %+v", commit, r)
		}
	}
}
