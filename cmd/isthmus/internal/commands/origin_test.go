package commands

import (
	"slices"
	"strings"
	"testing"

	"isthmus/cmd/isthmus/internal/check"
	"isthmus/internal/adminapi"
)

// TestReplicasOfTwoVersions checks that only replicas of the program's version are judged and
// shown. A replica of another version is reported as unchecked.
func TestReplicasOfTwoVersions(t *testing.T) {
	clusters, services := goodPages()
	good := &check.Input{Clusters: clusters, Services: services}
	older := Origin{Build: adminapi.Build{Version: "v0.0.1"}}
	s := newCheckState(adminapi.CheckedReplicas)
	s.merge([]Answer[check.Input]{
		{Replica: "a", Value: new(check.Input), Origin: older}, {Replica: "b", Value: good, Origin: thisFormat},
	}, testBuild)
	s.finish()
	if s.Unchecked != 1 || s.Failures+s.Warnings != 0 || s.unknown() {
		t.Errorf("%+v", s.Results)
	}

	others := []adminapi.OtherReplica{{Gateway: "a", Unchecked: older.Unchecked(testBuild)}}
	want := []string{"a is not compared: the replica is older than this program " +
		"and does not report the format of its debug API: " +
		"its version is v0.0.1, and the version of this program is v1.2.3"}
	if summary, lines := compared(others, ""); strings.Contains(summary, "agree") || !slices.Equal(lines, want) {
		t.Errorf("%s, %q", summary, lines)
	}
}

// TestCheckCommits checks that two builds without a release are compared by their commits.
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
