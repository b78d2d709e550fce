package main

import (
	"strings"
	"testing"
)

// TestNotes checks that the section of CHANGELOG.md about a version becomes the notes of that release, and
// that a version without a section is an error. The heading of a section may have a date.
func TestNotes(t *testing.T) {
	const changes = "# Changelog\n\n## Unreleased\n\n### Added\n\n- more\n\n" +
		"## v0.2.0 - 2026-11-30\n\n### Added\n\n- two\n\n### Fixed\n\n- three\n\n## v0.1.0\n\nThe first release.\n"
	for version, want := range map[string]string{
		"v0.2.0": "### Added\n\n- two\n\n### Fixed\n\n- three\n",
		"v0.1.0": "The first release.\n",
	} {
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
