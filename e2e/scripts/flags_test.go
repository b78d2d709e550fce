package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"isthmus/e2e/program"
)

func repository(name string) string { return filepath.Join("..", "..", name) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var (
	calls = regexp.MustCompile(`"\$isthmus" ([a-z-]+)(.*)`)
	flags = regexp.MustCompile(` (--[a-z-]+)`)
)

// TestFlags: the program has the verbs and flags by which demo.sh calls it.
func TestFlags(t *testing.T) {
	script, err := os.ReadFile(repository("manifests/k3d/demo.sh"))
	must(t, err)
	isthmus, err := program.Isthmus.Path(t.Context())
	must(t, err)
	checked := map[string]bool{}
	for _, call := range calls.FindAllStringSubmatch(strings.ReplaceAll(string(script), "\\\n", ""), -1) {
		verb := call[1]
		help, err := exec.CommandContext(t.Context(), isthmus, verb, "--help").CombinedOutput()
		if err != nil {
			t.Errorf("isthmus %s --help: %v", verb, err)
		}
		for _, flag := range flags.FindAllStringSubmatch(call[2], -1) {
			if !strings.Contains(string(help), "  "+flag[1]) {
				t.Errorf("isthmus %s has no %s", verb, flag[1])
			}
			checked[verb+" "+flag[1]] = true
		}
	}
	for _, call := range []string{"link --to-context", "clusters --context", "get --once"} {
		if !checked[call] {
			t.Errorf("demo.sh does not call isthmus %s", call)
		}
	}
}
