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

// Patterns for the lists of TestArrows.
const (
	outside     = "." // everything but the standard library
	everything  = "isthmus/..."
	commandLine = "isthmus/cmd/..."
	locals      = "isthmus/local/..."
	clusters    = "isthmus/clusterstore/..."
	serving     = "isthmus/grpcapi/..."
	linkerdAPI  = "github.com/linkerd/..."
	grpcModule  = "google.golang.org/grpc/..."
	kubernetes  = "k8s.io/..."
	kubernetes2 = "sigs.k8s.io/..."
)

// arrow limits what packages reach, directly or not.
type arrow struct {
	packages string   // a package, or with "/..." all packages below it too
	never    []string // what they must not reach
	except   []string // what they may reach of these
}

// arrows are the dependencies that ARCHITECTURE.md draws, from the lowest packages to the highest.
var arrows = []arrow{
	{packages: "isthmus/federation", never: []string{outside}},

	// Shared packages know nothing of the packages that use them.
	{
		packages: "isthmus/internal/...",
		never:    []string{commandLine, locals, clusters, serving, linkerdAPI, grpcModule},
	},
	{packages: "isthmus/internal/adminapi", never: []string{outside}},
	{packages: "isthmus/internal/pace", never: []string{outside}},
	{packages: "isthmus/internal/text", never: []string{outside}},
	{packages: "isthmus/internal/spec", never: []string{everything}},
	{packages: "isthmus/internal/guard", never: []string{outside}, except: []string{"isthmus/internal/text"}},
	{packages: "isthmus/internal/apisim", never: []string{everything}},
	{
		packages: "isthmus/internal/panics",
		never:    []string{everything, kubernetes, kubernetes2},
		except:   []string{"isthmus/federation", "isthmus/internal/adminapi", "isthmus/internal/text"},
	},
	{packages: "isthmus/manifests", never: []string{outside}},

	// Serving proxies needs neither Kubernetes nor clusters.
	{packages: serving, never: []string{commandLine, locals, clusters, kubernetes, kubernetes2}},

	// Clusters know nothing of proxies, nor of what the local cluster adds.
	{packages: clusters, never: []string{commandLine, locals, serving, linkerdAPI, grpcModule}},
	{packages: "isthmus/clusterstore/decode", never: []string{clusters, "isthmus/federation", "k8s.io/client-go/..."}},
	{
		packages: "isthmus/clusterstore/kube",
		never:    []string{clusters},
		except:   []string{"isthmus/clusterstore/decode"},
	},
	{
		packages: "isthmus/clusterstore/follow",
		never:    []string{clusters},
		except:   []string{"isthmus/clusterstore/decode"},
	},
	{
		packages: "isthmus/clusterstore/cluster",
		never:    []string{clusters},
		except: []string{
			"isthmus/clusterstore/decode",
			"isthmus/clusterstore/follow",
			"isthmus/clusterstore/kube",
		},
	},
	{packages: "isthmus/clusterstore/gateway", never: []string{"isthmus/clusterstore"}},
	{packages: "isthmus/clusterstore/internal/clustertest", never: []string{everything}},

	// The local cluster's additions: its writers do not know each other, nor the package local.
	{packages: locals, never: []string{commandLine, serving, linkerdAPI, grpcModule}},
	{packages: "isthmus/local/lease", never: []string{everything}},
	{
		packages: "isthmus/local/externalworkload",
		never:    []string{locals, clusters},
		except: []string{
			"isthmus/local/lease",
			"isthmus/clusterstore/decode",
			"isthmus/clusterstore/kube",
		},
	},
	{
		packages: "isthmus/local/copies",
		never:    []string{locals},
		except:   []string{"isthmus/local/lease"},
	},
	{
		packages: "isthmus/local/exports",
		never:    []string{locals},
		except:   []string{"isthmus/local/lease", "isthmus/local/exports/plan"},
	},
	{
		packages: "isthmus/local/exports/plan",
		never:    []string{everything},
		except:   []string{"isthmus/internal/text"},
	},

	// The program: Isthmus and the commands that look at it share no code but clients and types.
	{packages: "isthmus/cmd/isthmus"},
	{packages: "isthmus/cmd/isthmus/internal/admin", never: []string{commandLine}},
	{
		packages: "isthmus/cmd/isthmus/internal/server",
		never:    []string{commandLine},
		except:   []string{"isthmus/cmd/isthmus/internal/admin", "isthmus/cmd/isthmus/internal/cli"},
	},
	{
		packages: "isthmus/cmd/isthmus/internal/cli",
		never:    []string{everything, linkerdAPI, grpcModule, kubernetes, kubernetes2},
		except:   []string{"isthmus/internal/adminapi"},
	},
	{
		packages: "isthmus/cmd/isthmus/internal/cmdtest",
		never:    []string{everything},
		except:   []string{"isthmus/federation"},
	},
	{
		packages: "isthmus/cmd/isthmus/internal/check",
		never:    []string{everything, linkerdAPI, grpcModule, kubernetes, kubernetes2},
		except:   []string{"isthmus/internal/adminapi", "isthmus/internal/text"},
	},
	{
		packages: "isthmus/cmd/isthmus/internal/reach",
		never:    []string{commandLine, locals, clusters, serving, linkerdAPI, grpcModule},
		except:   []string{"isthmus/clusterstore/decode", "isthmus/clusterstore/kube"},
	},
	{
		packages: "isthmus/cmd/isthmus/internal/commands",
		never:    []string{commandLine, locals, serving},
		except: []string{
			"isthmus/cmd/isthmus/internal/check",
			"isthmus/cmd/isthmus/internal/cli",
			"isthmus/cmd/isthmus/internal/reach",
		},
	},
	{
		packages: "isthmus/cmd/isthmus/internal/commands/links",
		never: []string{
			locals,
			serving,
			"isthmus/cmd/isthmus/internal/admin",
			"isthmus/cmd/isthmus/internal/server",
		},
		except: []string{"isthmus/local/exports/plan"},
	},
}

// TestArrows checks what each package reaches. Each package has at least one arrow, and each arrow a package.
func TestArrows(t *testing.T) {
	const noTests = "isthmus" // the module's root has tests only
	reached := allDependencies(t)
	for pkg := range reached {
		if pkg != noTests && !slices.ContainsFunc(arrows, func(a arrow) bool { return covers(a.packages, pkg) }) {
			t.Errorf("%s has no arrow: say what it must not reach", pkg)
		}
	}
	for _, a := range arrows {
		found := false
		for pkg, deps := range reached {
			if !covers(a.packages, pkg) {
				continue
			}
			found = true
			for _, dep := range deps {
				if a.forbids(dep) && !covers(a.packages, dep) {
					t.Errorf("%s must not reach %s", pkg, dep)
				}
			}
		}
		if !found {
			t.Errorf("there is no package %s: remove its arrow", a.packages)
		}
	}
}

// forbids reports whether the packages must not reach dep.
func (a arrow) forbids(dep string) bool {
	covered := func(pattern string) bool { return covers(pattern, dep) }
	return slices.ContainsFunc(a.never, covered) && !slices.ContainsFunc(a.except, covered)
}

// TestArrowsOfClusters checks that nothing under clusterstore, tests included, reaches the packages above it.
func TestArrowsOfClusters(t *testing.T) {
	for _, dep := range dependencies(t, ".", "-test", "./clusterstore/...") {
		if covers(locals, dep) || covers(commandLine, dep) {
			t.Errorf("clusterstore must not reach %s", dep)
		}
	}
}

// TestArrowsOfEndToEnd checks that the module e2e and its tests reach only three packages of the root module.
func TestArrowsOfEndToEnd(t *testing.T) {
	allowed := []string{
		"isthmus/internal/adminapi",
		"isthmus/internal/apisim",
		"isthmus/internal/spec",
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

// TestSmall checks that the binary has none of the packages that a single import would bring, standard ones among them.
// A package of templates, for example, makes the linker keep all methods of all types.
func TestSmall(t *testing.T) {
	heavy := []string{
		"isthmus/clusterstore/internal/clustertest",
		"isthmus/internal/apisim",
		"isthmus/internal/spec",
		"github.com/spf13/cobra/doc/...",
		"golang.org/x/net/trace/...",
		"html/template",
		"k8s.io/apiextensions-apiserver/...",
		"k8s.io/client-go/dynamic/...",
		"k8s.io/kubectl/...",
		"net/rpc/...",
		"sigs.k8s.io/controller-runtime/...",
	}
	list := exec.Command("go", "list", "-deps", "-tags=grpcnotrace", "isthmus/cmd/isthmus") // as the Makefile builds it
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for _, dep := range strings.Fields(string(out)) {
		for _, f := range heavy {
			if covers(f, dep) {
				t.Errorf("isthmus/cmd/isthmus must not reach %s", dep)
			}
		}
	}
}

// TestImportsOfWire checks that the bytes that proxies are sent follow from federation's types, and from nothing else
// of this module. The test checks only direct imports, because the generated code of Linkerd's API reaches all of gRPC.
func TestImportsOfWire(t *testing.T) {
	allowed := []string{
		"isthmus/federation",
		"github.com/linkerd/linkerd2-proxy-api/go/destination",
		"github.com/linkerd/linkerd2-proxy-api/go/http_types",
		"github.com/linkerd/linkerd2-proxy-api/go/meta",
		"google.golang.org/grpc/encoding",
		"google.golang.org/grpc/encoding/proto",
		"google.golang.org/grpc/mem",
		"google.golang.org/protobuf/encoding/protowire",
		"google.golang.org/protobuf/proto",
		"google.golang.org/protobuf/types/known/durationpb",
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
		if !isStandard(path) && !slices.Contains(allowed, path) {
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

// covers reports whether a pattern covers a package. A pattern is the name of a package, a name with "/..." at its end,
// which also covers the packages below it, or outside, which covers every package that callers pass.
func covers(pattern, pkg string) bool {
	if pattern == outside {
		return true
	}
	name, below := strings.CutSuffix(pattern, "/...")
	return pkg == name || below && strings.HasPrefix(pkg, name+"/")
}

// allDependencies returns the packages of this module, each with all packages outside the standard library that it
// reaches.
func allDependencies(t *testing.T) map[string][]string {
	t.Helper()
	const format = `{{.ImportPath}}{{range .Deps}} {{.}}{{end}}`
	out, err := exec.Command("go", "list", "-f", format, "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		all[words[0]] = slices.DeleteFunc(words[1:], isStandard)
	}
	if len(all["isthmus/cmd/isthmus"]) == 0 {
		t.Fatalf("go list names no dependencies of isthmus/cmd/isthmus")
	}
	return all
}

// isStandard reports whether a package belongs to the standard library.
func isStandard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return first != "isthmus" && !strings.Contains(first, ".")
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
