package scripts

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFirstBuild: make announces the slow first build if its packages are not in Go's build cache,
// and prints nothing if they are. The test has a package without imports in the place of the API
// server.
func TestFirstBuild(t *testing.T) {
	cache := t.TempDir()
	before := firstBuild(t, cache)
	for _, part := range []string{"Kubernetes API server and etcd", "once", "minutes"} {
		if !strings.Contains(before, part) {
			t.Errorf("with an empty build cache make printed %q, without %q", before, part)
		}
	}

	build := exec.CommandContext(t.Context(), "go", "build", "unicode/utf8")
	build.Env = append(os.Environ(), "GOCACHE="+cache)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if after := firstBuild(t, cache); after != "" {
		t.Errorf("after the build make printed %q", after)
	}
}

// TestFirstBuildComesFirst: every target that compiles the API server announces it before anything is compiled.
func TestFirstBuildComesFirst(t *testing.T) {
	for _, target := range compiling {
		out, err := makeCommand(t, target, "--dry-run").Output()
		must(t, err)
		announced := strings.Index(string(out), "echo '== compiling the Kubernetes API server")
		compiles := regexp.MustCompile(`go (build|vet|test) `).FindIndex(out)
		if compiles == nil || announced < 0 || announced > compiles[0] {
			t.Errorf("make %s compiles at %v and announces it at %d of:\n%s", target, compiles, announced, out)
		}
	}
}

// TestAssets: with KUBEBUILDER_ASSETS, every target that builds, vets or tests e2e/cmd/controlplane does so without
// etcd and the API server, and looks at the folder first.
func TestAssets(t *testing.T) {
	controlplane := regexp.MustCompile(`cd e2e && .*(./cmd/controlplane|go vet|staticcheck|go test .*) .*`)
	for _, target := range compiling {
		out, err := makeCommand(t, target, "--dry-run", "KUBEBUILDER_ASSETS=/a folder").Output()
		must(t, err)
		looks := strings.Index(string(out), "go run ./cmd/assets")
		compiles := regexp.MustCompile(`go (build|vet|test) `).FindIndex(out)
		if compiles == nil || looks < 0 || looks > compiles[0] || strings.Contains(string(out), "compiling the Kubernetes API server") {
			t.Errorf("make %s compiles at %v and looks at the folder at %d of:\n%s", target, compiles, looks, out)
		}
		for _, line := range controlplane.FindAllString(string(out), -1) {
			whole := strings.Contains(line, "./cmd/controlplane") || strings.Contains(line, "./...")
			if whole && strings.Count(line, "-tags=assets") != max(1, strings.Count(line, "./...")) {
				t.Errorf("make %s compiles the API server by %s", target, line)
			}
		}
	}
}

// compiling are targets that build or vet e2e/cmd/controlplane.
var compiling = []string{"demo", "tools", "lint", "test", "sim", "faults", "e2e"}

func firstBuild(t *testing.T, cache string) string {
	t.Helper()
	cmd := makeCommand(t, "--silent", "first-build", "APISERVER_PACKAGES=unicode/utf8")
	cmd.Env = append(cmd.Env, "GOCACHE="+cache)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// makeCommand returns make for the repository's Makefile, without the flags of a make that runs this test.
func makeCommand(t *testing.T, args ...string) *exec.Cmd {
	args = append([]string{"-C", repository("."), "--no-print-directory"}, args...)
	cmd := exec.CommandContext(t.Context(), "make", args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "E2E", "KUBEBUILDER_ASSETS"}, name)
	})
	return cmd
}
