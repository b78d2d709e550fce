package crd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const generated = "zz_generated.deepcopy.go"

// TestGenerated: the generated deep copies are up to date. It generates them again, in
// a copy of those files of the module that this takes.
func TestGenerated(t *testing.T) {
	const root = "../.."
	dir := t.TempDir()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range files {
		files[i] = filepath.Join("clusterstore", "crd", name)
	}
	for _, name := range append(files, "go.mod", "go.sum") {
		if name == filepath.Join("clusterstore", "crd", generated) || strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	generate := exec.Command("go", "generate", "./clusterstore/crd")
	generate.Dir = dir
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want, err := os.ReadFile(filepath.Join(dir, "clusterstore", "crd", generated))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(generated); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: run make generate (%v)", generated, err)
	}
}
