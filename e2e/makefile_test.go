package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestFirstBuild checks that make announces the slow first build only if its packages are missing
// from Go's build cache. The test replaces the API server by a package without imports.
func TestFirstBuild(t *testing.T) {
	cache := t.TempDir()
	before := firstBuild(t, cache)
	for _, part := range []string{"Kubernetes API server and etcd", "once", "minutes"} {
		if !strings.Contains(before, part) {
			t.Errorf("with an empty build cache, make printed %q, want %q", before, part)
		}
	}

	build := exec.CommandContext(t.Context(), "go", "build", "unicode/utf8")
	build.Env = append(os.Environ(), "GOCACHE="+cache)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if after := firstBuild(t, cache); after != "" {
		t.Errorf("after the build, make printed %q", after)
	}
}

// TestFirstBuildComesFirst checks that every target that compiles the API server first announces
// the slow build.
func TestFirstBuildComesFirst(t *testing.T) {
	for _, target := range compiling {
		out := dryRun(t, target)
		announced := strings.Index(out, "echo '== compiling the Kubernetes API server")
		compiles := regexp.MustCompile(`go (build|vet|test) `).FindStringIndex(out)
		if compiles == nil || announced < 0 || announced > compiles[0] {
			t.Errorf("make %s compiles at %v and announces it at %d of:\n%s", target, compiles, announced, out)
		}
	}
}

// TestAssets checks that with KUBEBUILDER_ASSETS, every target that builds, vets or tests
// e2e/cmd/controlplane leaves out etcd and the API server, and first checks the directory.
func TestAssets(t *testing.T) {
	for _, target := range compiling {
		out := dryRun(t, target, "KUBEBUILDER_ASSETS=/a folder")
		looks := strings.Index(out, "go run ./cmd/assets")
		compiles := regexp.MustCompile(`go (build|vet|test) `).FindStringIndex(out)
		if compiles == nil || looks < 0 || looks > compiles[0] {
			t.Errorf("make %s compiles at %v and checks the directory at %d of:\n%s", target, compiles, looks, out)
		}
		expectAssets(t, target, out)
	}
	for target, file := range map[string]string{
		"skew": "PREVIOUS=x", "mirror-migration": "LINKERD_CONTROLLER=x", "mcs-conformance": "MCS_CONFORMANCE=x",
	} {
		expectAssets(t, target, dryRun(t, target, file, "KUBEBUILDER_ASSETS=/a folder"))
	}
	nodes := dryRun(t, "nodes", "KUBEBUILDER_ASSETS=/a folder")
	if strings.Contains(nodes, "cmd/assets") || strings.Contains(nodes, "-tags=assets") {
		t.Errorf("make nodes uses KUBEBUILDER_ASSETS:\n%s", nodes)
	}
}

// TestBuiltPrograms checks that a target for programs of another project rejects a directory, and
// explains how to build the programs.
func TestBuiltPrograms(t *testing.T) {
	const linkerd = "go build -o FILE ./controller/cmd"
	const mcs = "go test -c -o FILE ."
	folder := t.TempDir()
	for _, c := range []struct{ target, given, how string }{
		{"mirror-migration", "LINKERD_CONTROLLER=", linkerd},
		{"mirror-migration", "LINKERD_CONTROLLER=" + folder, linkerd},
		{"nodes", "LINKERD_CONTROLLER=" + folder, linkerd},
		{"mcs-conformance", "MCS_CONFORMANCE=", mcs},
		{"mcs-conformance", "MCS_CONFORMANCE=" + folder, mcs},
	} {
		skipped := []string{"-o", "first-build", "-o", "build"}
		out, err := makeCommand(t, append(skipped, c.target, c.given)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.how) {
			t.Errorf("make %s %s: %v\n%s", c.target, c.given, err, out)
		}
	}
	controller, err := filepath.Abs(filepath.Join("..", "controller"))
	must(t, err)
	for target, given := range map[string]string{
		"mirror-migration": "ISTHMUS_LINKERD_CONTROLLER='" + controller + "'",
		"nodes":            "-linkerd '" + controller + "'",
	} {
		if out := dryRun(t, target, "LINKERD_CONTROLLER=controller"); !strings.Contains(out, given) {
			t.Errorf("make %s does not pass the program:\n%s", target, out)
		}
	}
}

// expectAssets expects that a target builds, vets or tests e2e/cmd/controlplane only with the build
// tag.
func expectAssets(t *testing.T, target, commands string) {
	t.Helper()
	if !strings.Contains(commands, "go run ./cmd/assets") ||
		strings.Contains(commands, "compiling the Kubernetes API server") {
		t.Errorf("make %s does not check the directory:\n%s", target, commands)
	}
	controlplane := regexp.MustCompile(`cd e2e && .*(./cmd/controlplane|go vet|staticcheck|go test .*).*`)
	for _, line := range controlplane.FindAllString(commands, -1) {
		whole := strings.Contains(line, "./cmd/controlplane") || strings.Contains(line, "./...")
		if whole && strings.Count(line, "-tags=assets") != max(1, strings.Count(line, "./...")) {
			t.Errorf("make %s compiles the API server with %s", target, line)
		}
	}
}

// TestAssetsFolder checks that make accepts a relative path in the environment and on its command
// line, and fails if the directory lacks a program.
func TestAssetsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a folder")
	must(t, os.Mkdir(dir, 0o755))
	root, err := filepath.Abs("..")
	must(t, err)
	relative, err := filepath.Rel(root, dir)
	must(t, err)
	look := func(setting string, arguments ...string) string {
		cmd := makeCommand(t, append([]string{"first-build"}, arguments...)...)
		if setting != "" {
			cmd.Env = append(cmd.Env, setting)
		}
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	program := func(name, prints string) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho "+prints+"\n"), 0o755))
	}

	program("kube-apiserver", "Kubernetes v1.37.1")
	if out := look("KUBEBUILDER_ASSETS=" + dir); !strings.Contains(out, "has no etcd") {
		t.Errorf("without etcd, make printed:\n%s", out)
	}
	program("etcd", "etcd Version: 3.7.0")
	want := "KUBEBUILDER_ASSETS: kube-apiserver 1.37.1 and etcd 3.7.0 of " + dir + "\n"
	for _, path := range []string{dir, dir + "/", relative, relative + "/"} {
		for _, out := range []string{look("KUBEBUILDER_ASSETS=" + path), look("", "KUBEBUILDER_ASSETS="+path)} {
			if !strings.Contains(out, want) {
				t.Errorf("with %q, make printed:\n%s", path, out)
			}
		}
	}
}

// compiling lists targets that build or vet e2e/cmd/controlplane.
var compiling = []string{"demo", "tools", "lint", "test", "sim", "faults", "e2e"}

func dryRun(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := makeCommand(t, append([]string{"--dry-run"}, arguments...)...).Output()
	must(t, err)
	return string(out)
}

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

// makeCommand returns a make command for the repository's Makefile, without the flags of a parent
// make.
func makeCommand(t *testing.T, args ...string) *exec.Cmd {
	args = append([]string{"-C", "..", "--no-print-directory"}, args...)
	cmd := exec.CommandContext(t.Context(), "make", args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "E2E", "KUBEBUILDER_ASSETS"}, name)
	})
	return cmd
}

// workflow contains the fields of a GitHub workflow that TestWorkflows checks.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Timeout  int `json:"timeout-minutes"`
		Strategy struct {
			Matrix struct {
				Include []struct {
					Target string `json:"target"`
				} `json:"include"`
			} `json:"matrix"`
		} `json:"strategy"`
		Steps []struct {
			Uses string `json:"uses"`
			Run  string `json:"run"`
		} `json:"steps"`
	} `json:"jobs"`
}

var (
	pinned     = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	makeCall   = regexp.MustCompile(`(?m)^\s*make ([a-z][a-z0-9-]*)`)
)

// TestWorkflows checks that each workflow limits its permissions and its time, pins actions to
// commits, and only calls targets in the Makefile. The nightly workflow must run all long searches.
func TestWorkflows(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "Makefile"))
	must(t, err)
	known := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(string(text), -1) {
		known[m[1]] = true
	}
	files, err := filepath.Glob(filepath.Join("..", ".github/workflows/*.yaml"))
	must(t, err)
	nightly := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		var w workflow
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if len(w.Permissions) == 0 || len(w.Jobs) == 0 {
			t.Errorf("%s has permissions %v and %d jobs", file, w.Permissions, len(w.Jobs))
		}
		for name, job := range w.Jobs {
			if job.Timeout == 0 {
				t.Errorf("%s: the job %s has no timeout-minutes", file, name)
			}
			var called []string
			for _, step := range job.Steps {
				if step.Uses != "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s: %s is not pinned to a commit", file, step.Uses)
				}
				for _, m := range makeCall.FindAllStringSubmatch(step.Run, -1) {
					called = append(called, m[1])
				}
			}
			for _, run := range job.Strategy.Matrix.Include {
				called = append(called, run.Target)
			}
			for _, target := range called {
				if !known[target] {
					t.Errorf("%s: the job %s calls make %s, which the Makefile does not have", file, name, target)
				}
				if filepath.Base(file) == "nightly.yaml" {
					nightly[target] = true
				}
			}
		}
	}
	for _, target := range []string{"fuzz", "sim", "faults", "vulncheck", "skew"} {
		if !nightly[target] {
			t.Errorf("nightly.yaml does not run make %s", target)
		}
	}
}
