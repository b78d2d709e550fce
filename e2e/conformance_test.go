package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"isthmus/e2e/scenario"
)

var slow = flag.Bool("slow", false, "run the cases that take over a minute too")

// TestConformance runs every case of testdata/cases, one after the other, against three clusters and a gateway. A case
// is a subtest: -run 'TestConformance/^plain-' chooses, -v shows the commands as they run.
func TestConformance(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "cases", "*"+scenario.Extension))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases found: %v", err)
	}
	env, stop, err := scenario.Start(t.Context(), scenario.StartConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	current := t
	runner, err := scenario.NewRunner(env, scenario.Options{Slow: *slow, Trace: func(line string) { current.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runner.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), scenario.Extension), func(t *testing.T) {
			current = t
			c, err := scenario.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			result := runner.Run(t.Context(), c)
			if result.Skipped != "" {
				t.Skip(result.Skipped)
			}
			if result.Err != nil {
				t.Error(result.Err)
			}
		})
	}
}

// TestCaseAddresses: no two cases share a network 10.X.Y.0/24 of pods, a cluster IP, or an IPv6 address. What one leaves behind
// for a moment does not meet the next.
func TestCaseAddresses(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "cases", "*"+scenario.Extension))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases found: %v", err)
	}
	address := regexp.MustCompile(`\b10\.(0\.\d+|[1-9]\d*)\.\d+\b|\bfd00:[0-9a-f:]+\b`)
	user := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range address.FindAllString(string(text), -1) {
			if other, ok := user[a]; ok && other != file {
				t.Errorf("%s has %s, and so has %s", file, a, other)
			}
			user[a] = file
		}
	}
}

// TestCaseFiles checks all cases without running them: they can be read, and the list of cases names them with what they
// say of themselves.
func TestCaseFiles(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("testdata", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*"+scenario.Extension))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases found: %v", err)
	}
	for _, file := range files {
		c, err := scenario.Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if row := fmt.Sprintf("| `%s` | %s |\n", c.Name, c.About); !strings.Contains(string(readme), row) {
			t.Errorf("testdata/README.md has no row %s", row)
		}
	}
}
