package main

import (
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
)

// TestWhen checks that SOURCE_DATE_EPOCH takes precedence over the commit's time, and that the
// default is 1970.
func TestWhen(t *testing.T) {
	for _, c := range []struct{ epoch, commit, want string }{
		{"", "", "1970-01-01 00:00:00 +0000 UTC"},
		{"", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05 +0000 UTC"},
		{"1700000000", "2026-01-02T03:04:05Z", "2023-11-14 22:13:20 +0000 UTC"},
	} {
		t.Setenv("SOURCE_DATE_EPOCH", c.epoch)
		got, err := (&binary{settings: map[string]string{"vcs.time": c.commit}}).when()
		if err != nil || got.String() != c.want {
			t.Errorf("%v, %v; not %s", got, err, c.want)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := new(binary).when(); err == nil {
		t.Error("yesterday is taken as a number of seconds")
	}
}

// TestReadBinary checks that only programs built by the Go tool without cgo are accepted.
func TestReadBinary(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/does/not/exist": "no such file", text: "unrecognized file format"} {
		if _, err := readBinary(path, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func tree(t *testing.T, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func inModule(root, dir string) linked {
	return linked{ImportPath: "m/" + dir, Dir: filepath.Join(root, dir), Module: &struct{ Path, Dir string }{"m", root}}
}

// TestNotices checks that licenses and notices only come from the package's directory, its parents,
// and Go itself.
func TestNotices(t *testing.T) {
	goroot := tree(t, "LICENSE", "PATENTS", "src/net/http/server.go")
	root := tree(
		t,
		"LICENCE.md",
		"NOTICE",
		"license.go",
		"licensing/x.go",
		"third_party/COPYING",
		"third_party/fork/a.go",
		"other/LICENSE",
	)
	got, err := notices([]linked{
		inModule(root, "third_party/fork"), inModule(root, "licensing"),
		{ImportPath: "net/http", Dir: filepath.Join(goroot, "src/net/http"), Standard: true},
	}, goroot)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"licenses/m/LICENCE.md",
		"licenses/m/NOTICE",
		"licenses/m/third_party/COPYING",
		"licenses/std/LICENSE",
		"licenses/std/PATENTS",
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

// TestNoLicence checks that a module without a license is an error, even if the module has a
// notice.
func TestNoLicence(t *testing.T) {
	root := tree(t, "NOTICE", "a/a.go", "other/LICENSE")
	if _, err := notices([]linked{inModule(root, "a")}, ""); err == nil || err.Error() != "module m has no license" {
		t.Error(err)
	}
	if _, err := notices([]linked{inModule(filepath.Join(root, "other"), "../a")}, ""); err == nil ||
		!strings.Contains(err.Error(), "is not below") {
		t.Error(err)
	}
}

// TestLoad checks that a missing docker only prints a message, and that an error from docker is a
// failure.
func TestLoad(t *testing.T) {
	tag, err := name.NewTag("isthmus:dev")
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]platformImage{"linux/amd64": {image: empty.Image}}
	for _, c := range []struct{ name, script, printed, err string }{
		{"none", "", "not loaded: there is no docker\n", ""},
		{"no daemon", "echo 'Cannot connect' >&2; exit 1", "not loaded: Cannot connect\n", ""},
		{
			"another platform",
			"echo linux/s390x",
			"not loaded: the daemon runs linux/s390x, and there is an image for linux/amd64 only\n",
			"",
		},
		{"refused", "case $1 in version) echo linux/amd64;; *) exit 3;; esac", "", "docker load: exit status 3"},
		{
			"loaded",
			"case $1 in version) echo linux/amd64;; *) exec /bin/cat >/dev/null;; esac",
			"loaded for linux/amd64\n",
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", dir)
			if c.script != "" {
				if err := os.WriteFile(
					filepath.Join(dir, "docker"),
					[]byte("#!/bin/sh\n"+c.script+"\n"),
					0o755,
				); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			err := load(t.Context(), &out, tag, images)
			if got := errorText(err); got != c.err {
				t.Errorf("error %q, not %q", got, c.err)
			}
			if !strings.HasSuffix(out.String(), c.printed) || c.printed == "" && out.Len() > 0 {
				t.Errorf("printed %q", out.String())
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestNamed checks the name of an image for docker and for containerd. A digest is not accepted.
func TestNamed(t *testing.T) {
	for _, c := range []struct{ image, version, docker, containerd string }{
		{"isthmus", "", "isthmus:dev", "docker.io/library/isthmus:dev"},
		{"isthmus", "v1", "isthmus:v1", "docker.io/library/isthmus:v1"},
		{
			"registry.example.com:5000/isthmus",
			"v1",
			"registry.example.com:5000/isthmus:v1",
			"registry.example.com:5000/isthmus:v1",
		},
		{
			"registry.example.com/isthmus:demo",
			"v1",
			"registry.example.com/isthmus:demo",
			"registry.example.com/isthmus:demo",
		},
	} {
		tag, err := named(c.image, c.version)
		if err != nil || tag.String() != c.docker || containerdName(tag) != c.containerd {
			t.Errorf("%s %s: %s, %s, %v", c.image, c.version, tag, containerdName(tag), err)
		}
	}
	for image, version := range map[string]string{"isthmus": "v1+dirty", "Isthmus": "v1", "isthmus@sha256:0": "v1"} {
		if tag, err := named(image, version); err == nil {
			t.Errorf("%s %s: %s", image, version, tag)
		}
	}
}

// TestNotes checks that a version's section in CHANGELOG.md becomes the release notes, and that a
// missing section is an error. The heading of a section may contain a date.
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

// TestReleaseRefuses checks that a release requires a version that Helm and Go accept.
func TestReleaseRefuses(t *testing.T) {
	for _, version := range []string{"", "0.1.0", "v0.1", "v1", "v0.1.0+dirty", "latest"} {
		r := release{version: version}
		if err := r.make(t.Context(), nil); err == nil ||
			!strings.Contains(err.Error(), "is no version: give it as v0.1.0") {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// TestReleaseRefusesPrograms checks that a release only accepts programs built from the tagged
// commit without changes.
func TestReleaseRefusesPrograms(t *testing.T) {
	const changed = "it was not built from a commit alone"
	const untagged = "give the commit the tag v0.1.0 first"
	for name, c := range map[string]struct {
		version  string
		settings map[string]string
		want     string
	}{
		"no commit":         {"v0.1.0", map[string]string{}, changed},
		"changes":           {"v0.1.0", map[string]string{"vcs.revision": "1", "vcs.modified": "true"}, changed},
		"without a tag":     {"v0.0.0-1", map[string]string{"vcs.revision": "1", "vcs.modified": "false"}, untagged},
		"with another tag":  {"v0.2.0", map[string]string{"vcs.revision": "1", "vcs.modified": "false"}, untagged},
		"changes and a tag": {"v0.1.0+dirty", map[string]string{"vcs.revision": "1", "vcs.modified": "true"}, changed},
	} {
		r := release{version: "v0.1.0", out: t.TempDir()}
		b := &binary{
			info:     &debug.BuildInfo{Main: debug.Module{Version: c.version}},
			settings: c.settings,
		}
		if err := r.archive(t.Context(), b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %q", name, err, c.want)
		}
	}
}
