package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow has the fields of a GitHub workflow that TestWorkflows checks.
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

// TestWorkflows: each workflow limits its permissions and its time, names actions by their commits,
// and calls targets that the Makefile has. The nightly one runs every long search.
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
					t.Errorf("%s: %s is not named by its commit", file, step.Uses)
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
