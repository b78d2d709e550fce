package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree writes empty files.
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

// TestNotices: licences and notices are taken from a package's folder and those above, and no others; Go has its own.
func TestNotices(t *testing.T) {
	goroot := tree(t, "LICENSE", "PATENTS", "src/net/http/server.go")
	root := tree(t, "LICENCE.md", "NOTICE", "license.go", "licensing/x.go", "third_party/COPYING", "third_party/fork/a.go", "other/LICENSE")
	got, err := notices([]linked{
		inModule(root, "third_party/fork"), inModule(root, "licensing"),
		{ImportPath: "net/http", Dir: filepath.Join(goroot, "src/net/http"), Standard: true},
	}, goroot)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"licenses/m/LICENCE.md", "licenses/m/NOTICE", "licenses/m/third_party/COPYING", "licenses/std/LICENSE", "licenses/std/PATENTS"}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

// TestNoLicence: what nobody has allowed to use is not put into an image; a notice allows nothing.
func TestNoLicence(t *testing.T) {
	root := tree(t, "NOTICE", "a/a.go", "other/LICENSE")
	if _, err := notices([]linked{inModule(root, "a")}, ""); err == nil || err.Error() != "module m has no licence" {
		t.Error(err)
	}
	if _, err := notices([]linked{inModule(filepath.Join(root, "other"), "../a")}, ""); err == nil || !strings.Contains(err.Error(), "is not below") {
		t.Error(err)
	}
}
