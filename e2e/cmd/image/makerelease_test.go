package main_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"isthmus/e2e/harness"
)

// TestRelease checks that make release is reproducible across clones of a commit. It also checks
// that all files contain the requested version, and that manifests and chart refer to the image by
// its digest.
func TestRelease(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "a", "second")
	for _, dir := range []string{first, second} {
		sources(t, dir)
		commitAll(t, dir)
	}
	tag := func(dir string) { output(t, exec.CommandContext(t.Context(), "git", "-C", dir, "tag", "v0.1.0")) }
	with := []string{"release", "VERSION=v0.1.0", "REGISTRY=registry.example.com/mesh", "RELEASED=" + thisPlatform}
	for _, dir := range []string{first, second} {
		tag(dir)
		makes(t, dir, noDocker, with...)
	}
	out := filepath.Join(first, "out/release")
	sameFiles(t, out, filepath.Join(second, "out/release"))

	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(out, name))
		must(t, err)
		return data
	}
	for line := range strings.Lines(string(read("SHA256SUMS"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if got := fmt.Sprintf("%x", sha256.Sum256(read(name))); got != sum {
			t.Errorf("%s has the sum %s, not %s", name, got, sum)
		}
	}
	if n := strings.Count(string(read("SHA256SUMS")), "\n"); n != 7 {
		t.Errorf("SHA256SUMS has %d files:\n%s", n, read("SHA256SUMS"))
	}

	archive := "isthmus_0.1.0_" + strings.ReplaceAll(thisPlatform, "/", "_")
	files := untar(t, unzip(t, read(archive+".tar.gz")))
	isthmus := filepath.Join(t.TempDir(), "isthmus")
	must(t, os.WriteFile(isthmus, files["isthmus"].data, 0o755))
	if got := output(t, exec.CommandContext(t.Context(), isthmus, "version", "--client")); !strings.HasPrefix(
		got,
		"isthmus v0.1.0\n",
	) {
		t.Errorf("it calls itself %s", got)
	}
	if string(files["isthmus.cdx.json"].data) != string(read(archive+".cdx.json")) ||
		len(files["LICENSE"].data) < 1000 ||
		len(files["licenses/std/LICENSE"].data) < 1000 {
		t.Errorf("SBOM or licenses are not in %s", archive)
	}

	layout := t.TempDir()
	for name, f := range untar(t, read("isthmus_0.1.0_image.tar")) {
		if !f.header.FileInfo().IsDir() {
			must(t, os.MkdirAll(filepath.Join(layout, filepath.Dir(name)), 0o755))
			must(t, os.WriteFile(filepath.Join(layout, name), f.data, 0o644))
		}
	}
	i := readImage(t, layout)
	if got := i.config.Config.Labels["org.opencontainers.image.version"]; got != "v0.1.0" ||
		i.index.Annotations["io.containerd.image.name"] != "registry.example.com/mesh/isthmus:v0.1.0" {
		t.Errorf("the image has the version %s, and is %v", got, i.index.Annotations)
	}
	chart := untar(t, unzip(t, read("isthmus-0.1.0.tgz")))
	for what, c := range map[string]struct {
		text []byte
		want []string
	}{
		"install.yaml": {
			read("install.yaml"),
			[]string{
				"image: registry.example.com/mesh/isthmus:v0.1.0@" + i.index.Digest + "\n",
				"app.kubernetes.io/version: v0.1.0\n",
			},
		},
		"Chart.yaml": {chart["isthmus/Chart.yaml"].data, []string{"\nversion: 0.1.0\n", "\nappVersion: v0.1.0\n"}},
		"values.yaml": {
			chart["isthmus/values.yaml"].data,
			[]string{"  repository: registry.example.com/mesh/isthmus\n", "  digest: \"" + i.index.Digest + "\"\n"},
		},
		"plugin.yaml": {
			untar(t, unzip(t, read("isthmus-post-render-0.1.0.tgz")))["isthmus-post-render/plugin.yaml"].data,
			[]string{"\nversion: 0.1.0\n"},
		},
		"notes.md": {read("notes.md"), []string{"is the first release."}},
	} {
		for _, want := range c.want {
			if !strings.Contains(string(c.text), want) {
				t.Errorf("%s has no %q:\n%.3000s", what, want, c.text)
			}
		}
	}

	// Helm must accept both archives.
	helm, err := harness.Helm.Path(t.Context())
	must(t, err)
	home := t.TempDir()
	for _, args := range [][]string{
		{"plugin", "install", "--verify=false", "isthmus-post-render-0.1.0.tgz"},
		{"template", "isthmus", "isthmus-0.1.0.tgz"},
	} {
		cmd := exec.CommandContext(t.Context(), helm, args...)
		cmd.Dir, cmd.Env = out, append(
			os.Environ(),
			"HOME="+home,
			"HELM_DATA_HOME="+home,
			"HELM_CACHE_HOME="+home,
			"HELM_CONFIG_HOME="+home,
		)
		output(t, cmd)
	}
}
