package main

import (
	"strings"
	"testing"
)

// TestNotes: the part of CHANGELOG.md about a version is the release's notes; a version that it does not name is none.
func TestNotes(t *testing.T) {
	const changes = "# Changes\n\n## Not released yet\n\n- more\n\n## v0.2.0\n\n- two\n\n**Serving**\n\n## v0.1.0\n\n- one\n"
	for version, want := range map[string]string{"v0.2.0": "- two\n\n**Serving**\n", "v0.1.0": "- one\n"} {
		if got, err := notesOf(changes, version); err != nil || got != want {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
	if got, err := notesOf(changes, "v0.2"); err == nil || !strings.Contains(err.Error(), `no section "## v0.2"`) {
		t.Errorf("v0.2: %q, %v", got, err)
	}
}

// TestReleaseRefuses: a release needs a version that Helm and Go take.
func TestReleaseRefuses(t *testing.T) {
	for _, version := range []string{"", "0.1.0", "v0.1", "v1", "v0.1.0+dirty", "latest"} {
		r := release{version: version}
		if err := r.make(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "is no version: give it as v0.1.0") {
			t.Errorf("%s: %v", version, err)
		}
	}
}
