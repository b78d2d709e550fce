// Package isthmus_test checks what holds for the module as a whole.
package isthmus_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArrows keeps the packages' dependencies as they are meant to be.
func TestArrows(t *testing.T) {
	const outside = "." // anything but the standard library and the package itself
	serving := []string{"isthmus/grpcapi/...", "github.com/linkerd/...", "google.golang.org/grpc/..."}
	clusters := []string{ // all but types, and clients of them
		"isthmus/clusterstore",
		"isthmus/clusterstore/cluster",
		"isthmus/clusterstore/follow",
	}
	but := func(more ...string) []string { return append(more, serving...) }
	for pkg, forbidden := range map[string][]string{
		"isthmus/federation":             {outside},
		"isthmus/clusterstore":           but("isthmus/local/..."),
		"isthmus/clusterstore/cluster":   but("isthmus/local/...", "isthmus/clusterstore"),
		"isthmus/clusterstore/follow":    but("isthmus/local/...", "isthmus/clusterstore", "isthmus/clusterstore/cluster", "isthmus/clusterstore/kube"),
		"isthmus/clusterstore/kube":      but("isthmus/local/...", "isthmus/clusterstore", "isthmus/clusterstore/cluster", "isthmus/clusterstore/follow"),
		"isthmus/clusterstore/decode":    but("isthmus/local/...", "isthmus/clusterstore", "isthmus/clusterstore/cluster", "isthmus/clusterstore/follow", "isthmus/clusterstore/kube", "isthmus/federation", "k8s.io/client-go/..."),
		"isthmus/local":                  but(),
		"isthmus/local/exports/linkerd":  but("isthmus/local", "isthmus/local/exports", "isthmus/clusterstore", "isthmus/clusterstore/cluster", "isthmus/clusterstore/kube"),
		"isthmus/local/externalworkload": but("isthmus/local", "isthmus/clusterstore", "isthmus/clusterstore/cluster", "isthmus/clusterstore/follow"),
		"isthmus/local/lease":            but("isthmus/local", "isthmus/local/externalworkload", "isthmus/clusterstore", "isthmus/clusterstore/cluster", "isthmus/clusterstore/follow", "isthmus/clusterstore/kube", "isthmus/federation"),
		"isthmus/grpcapi":                {"isthmus/local/...", "isthmus/clusterstore/...", "k8s.io/..."},
		"isthmus/cmd/isthmus":            {"isthmus/e2e/..."},
		"isthmus/internal/pace":          {outside},
		"isthmus/internal/adminapi":      {outside},
		"isthmus/internal/guard":         but("isthmus/federation", "isthmus/clusterstore/...", "isthmus/local/...", "isthmus/cmd/...", "k8s.io/..."),
		"isthmus/internal/apisim": but(
			"isthmus/federation", "isthmus/clusterstore/...", "isthmus/local/...", "isthmus/cmd/...",
		),
		"isthmus/internal/tierspec":   {outside},
		"isthmus/internal/exportspec": {outside},
		"isthmus/internal/text":       {outside},

		"isthmus/cmd/isthmus/internal/check":    but("isthmus/federation", "isthmus/clusterstore/...", "isthmus/local/...", "isthmus/cmd/...", "k8s.io/..."),
		"isthmus/cmd/isthmus/internal/cli":      but("isthmus/federation", "isthmus/clusterstore/...", "isthmus/local/...", "isthmus/cmd/isthmus/internal/commands", "isthmus/cmd/isthmus/internal/reach", "k8s.io/..."),
		"isthmus/cmd/isthmus/internal/commands": append([]string{"isthmus/grpcapi/...", "isthmus/local/..."}, clusters...),
		"isthmus/cmd/isthmus/internal/reach":    but(append([]string{"isthmus/local/...", "isthmus/cmd/isthmus/internal/cli"}, clusters...)...),
		"isthmus/cmd/isthmus/internal/commands/links": {
			"isthmus/local", "isthmus/local/lease", "isthmus/local/exports", "isthmus/local/externalworkload/...",
			"isthmus/grpcapi/...",
		},
		"isthmus/cmd/isthmus/internal/admin": {
			"isthmus/cmd/isthmus/internal/server", "isthmus/cmd/isthmus/internal/commands/...",
			"isthmus/cmd/isthmus/internal/cli", "isthmus/cmd/isthmus/internal/check", "isthmus/cmd/isthmus/internal/reach",
		},
		"isthmus/cmd/isthmus/internal/preflight": {
			"isthmus/grpcapi/...", "isthmus/local", "isthmus/cmd/isthmus/internal/server",
			"isthmus/cmd/isthmus/internal/admin",
		},
		"isthmus/cmd/isthmus/internal/server": {
			"isthmus/cmd/isthmus/internal/commands/...", "isthmus/cmd/isthmus/internal/check",
			"isthmus/cmd/isthmus/internal/reach",
		},
	} {
		deps := dependenciesOf(t, pkg)
		for _, dep := range deps[:len(deps)-1] {
			for _, f := range forbidden {
				if f == outside || covers(f, dep) {
					t.Errorf("%s must not reach %s", pkg, dep)
				}
			}
		}
	}
}

// TestArrowsOfClusters checks that nothing under clusterstore, tests included, reaches the packages above it.
func TestArrowsOfClusters(t *testing.T) {
	for _, dep := range dependencies(t, ".", "-test", "./clusterstore/...") {
		if covers("isthmus/local/...", dep) {
			t.Errorf("clusterstore must not reach %s", dep)
		}
	}
}

// TestArrowsOfEndToEnd checks that the module e2e and its tests reach only four packages of the root module.
func TestArrowsOfEndToEnd(t *testing.T) {
	allowed := []string{
		"isthmus/internal/adminapi", "isthmus/internal/apisim", "isthmus/internal/exportspec", "isthmus/internal/tierspec",
	}
	var reached []string
	for _, dep := range dependencies(t, "e2e", "-test", "./...") {
		switch {
		case !covers("isthmus/...", dep), covers("isthmus/e2e/...", dep), strings.HasSuffix(dep, ".test"):
		case slices.Contains(allowed, dep):
			reached = append(reached, dep)
		default:
			t.Errorf("e2e must not reach %s", dep)
		}
	}
	for _, pkg := range allowed {
		if !slices.Contains(reached, pkg) {
			t.Errorf("nothing in e2e reaches %s: remove it from the list", pkg)
		}
	}
}

// TestModules checks that the repository has three Go modules.
func TestModules(t *testing.T) {
	var modules []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "go.mod" {
			modules = append(modules, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"e2e/go.mod", "e2e/tools/go.mod", "go.mod"}; !slices.Equal(modules, want) {
		t.Errorf("the modules are %q, want %q: CONTRIBUTING.md explains them", modules, want)
	}
}

// TestSmall keeps out of the binary what a single import would bring. Templates make the linker
// keep all methods of all types.
func TestSmall(t *testing.T) {
	heavy := []string{
		"k8s.io/client-go/dynamic/...",
		"isthmus/clusterstore/kube/kubetest", "isthmus/clusterstore/decode/corpus", "isthmus/clusterstore/decode/decodetest", "isthmus/internal/apisim", "isthmus/internal/exportspec", "isthmus/internal/tierspec", "k8s.io/kubectl/...", "k8s.io/apiextensions-apiserver/...", "sigs.k8s.io/controller-runtime/...",
		"github.com/spf13/cobra/doc/...", "golang.org/x/net/trace/...", "html/template/...", "net/rpc/...",
	}
	for _, dep := range dependenciesOf(t, "isthmus/cmd/isthmus", "-tags=grpcnotrace") { // as the Makefile builds it
		for _, f := range heavy {
			if covers(f, dep) {
				t.Errorf("isthmus/cmd/isthmus must not reach %s", dep)
			}
		}
	}
}

// TestImportsOfWire: the bytes that proxies are sent follow from federation's types,
// and from nothing else of this module. Only direct imports count here: the generated
// code of Linkerd's API reaches all of gRPC.
func TestImportsOfWire(t *testing.T) {
	allowed := []string{
		"isthmus/federation", "github.com/linkerd/linkerd2-proxy-api/go/destination", "github.com/linkerd/linkerd2-proxy-api/go/http_types",
		"github.com/linkerd/linkerd2-proxy-api/go/meta",
		"google.golang.org/protobuf/encoding/protowire", "google.golang.org/protobuf/proto", "google.golang.org/protobuf/types/known/durationpb",
		"google.golang.org/grpc/encoding", "google.golang.org/grpc/encoding/proto", "google.golang.org/grpc/mem",
	}
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, "isthmus/grpcapi/wire").Output()
	if err != nil {
		t.Fatal(err)
	}
	imports := strings.Fields(string(out))
	if !slices.Contains(imports, allowed[0]) {
		t.Fatalf("imports %v", imports)
	}
	for _, path := range imports {
		first, _, _ := strings.Cut(path, "/")
		standard := first != "isthmus" && !strings.Contains(first, ".")
		if !standard && !slices.Contains(allowed, path) {
			t.Errorf("isthmus/grpcapi/wire must not import %s", path)
		}
	}
}

// TestPagesNameFiles: every Go file that a page names exists.
func TestPagesNameFiles(t *testing.T) {
	var files []string
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		files = append(files, "/"+filepath.ToSlash(path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "docs/performance.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`[a-z][a-z0-9_/]*\.go\b`).FindAllString(string(text), -1) {
			if !slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(f, "/"+name) }) {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
	}
}

// covers reports whether a package is the one of that name or, with "/..." at its
// end, one of those from it on down.
func covers(pattern, pkg string) bool {
	name, below := strings.CutSuffix(pattern, "/...")
	return pkg == name || below && strings.HasPrefix(pkg, name+"/")
}

// dependenciesOf lists all packages outside the standard library that a package of this module reaches. The package
// itself is the last.
func dependenciesOf(t *testing.T, pkg string, flags ...string) []string {
	t.Helper()
	deps := dependencies(t, ".", append(slices.Clone(flags), pkg)...)
	if len(deps) == 0 || deps[len(deps)-1] != pkg {
		t.Fatalf("go list -deps %s does not end with it: %v", pkg, deps)
	}
	return deps
}

// dependencies lists all packages outside the standard library that go list -deps prints in a folder.
func dependencies(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	list := []string{"list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}"}
	cmd := exec.Command("go", append(list, args...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", strings.Join(args, " "), err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(word string) bool {
		return strings.HasPrefix(word, "[") // after a package that is compiled anew for a test: [PACKAGE.test]
	})
}
