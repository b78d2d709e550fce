package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// shellScripts returns the repository's shell scripts: files that end in .sh or whose first line
// specifies a shell.
func shellScripts(t *testing.T) (list []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil ||
			slices.Contains([]string{".git", "bin", "out", "testdata", "node_modules"}, d.Name()) && d.IsDir() {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		first, _, _ := strings.Cut(string(text), "\n")
		if strings.HasSuffix(path, ".sh") || strings.HasPrefix(first, "#!") && strings.HasSuffix(first, "sh") {
			list = append(list, path)
		}
		return err
	})
	must(t, err)
	for _, name := range []string{
		".ci/run",
		"manifests/k3d/demo.sh",
		"manifests/k3d/destroy.sh",
		"manifests/k3d/lib.sh",
	} {
		if !slices.Contains(list, filepath.Join("..", name)) {
			t.Errorf("%s is not among %q", name, list)
		}
	}
	return list
}

// TestScriptsParse checks that every script can be parsed by its shell. Scripts for sh must be
// POSIX scripts, because sh on macOS and on Debian are different shells.
func TestScriptsParse(t *testing.T) {
	for _, path := range shellScripts(t) {
		text, err := os.ReadFile(path)
		must(t, err)
		variant := syntax.LangPOSIX
		if bytes.HasPrefix(text, []byte("#!/usr/bin/env bash\n")) {
			variant = syntax.LangBash
		}
		if _, err := syntax.NewParser(syntax.Variant(variant)).Parse(bytes.NewReader(text), path); err != nil {
			t.Error(err)
		}
	}
}

// TestScriptsPassShellcheck needs shellcheck, which cannot be installed as a Go module.
func TestScriptsPassShellcheck(t *testing.T) {
	shellcheck, err := exec.LookPath("shellcheck")
	if err != nil {
		const missing = "there is no shellcheck in $PATH, so the scripts are NOT checked by it"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing + ": CI needs it")
		}
		t.Skip(missing)
	}
	args := append([]string{"--external-sources"}, shellScripts(t)...)
	if out, err := exec.CommandContext(t.Context(), shellcheck, args...).CombinedOutput(); err != nil {
		t.Errorf("shellcheck: %v\n%s", err, out)
	}
}
