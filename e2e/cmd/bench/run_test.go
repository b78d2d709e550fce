package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"isthmus/e2e/bench"
	"isthmus/e2e/cmd/internal/cli"
)

func quiet() process { return process{strings.NewReader(""), io.Discard, io.Discard} }

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"-nothing"}, {"-run", "("}, {"-run", "no such trial"}, {"fly"}, {"floor"}, {"floor", "a", "b"}, {"list"}, {"page", "more"},
	} {
		args = append(args[:len(args):len(args)], map[bool][]string{true: {"-out", t.TempDir()}}[args[0] != "floor" && args[0] != "list" && args[0] != "page"]...)
		if err := run(t.Context(), args, quiet()); !errors.As(err, new(cli.UsageError)) {
			t.Errorf("%q: %v", args, err)
		}
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"-help"}, process{nil, &out, io.Discard}); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "bench growth") || !strings.Contains(out.String(), "-run") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestMissed: a run that misses a target ends with an error, and is printed and kept all the same.
func TestMissed(t *testing.T) {
	path := filepath.Join(t.TempDir(), reportFile)
	for rss, want := range map[float64]string{100: "<nil>", 101: "over target: idle: memory"} {
		report := idleReport(rss)
		var out strings.Builder
		if err := keep(report, time.Minute, path, &out); fmt.Sprint(err) != want {
			t.Errorf("%g MB: %v", rss, err)
		}
		if kept, err := bench.ReadReport(path); err != nil || !reflect.DeepEqual(kept, report) {
			t.Errorf("kept is %+v, %v", kept, err)
		}
		if line := fmt.Sprintf("%.0f MB", rss); !strings.Contains(out.String(), line) {
			t.Errorf("%q is not printed:\n%s", line, out.String())
		}
	}
}

// idleReport is a report of one trial, whose gateway has taken so much memory, of 100 MB.
func idleReport(rss float64) *bench.Report {
	return bench.NewReport([]bench.Result{{
		Trial: "idle", Figures: []bench.Figure{{Key: "rss", Label: "memory", Unit: "MB", Max: 100}},
		Samples: map[bench.Kind][]bench.Sample{bench.Gateway: {{"rss": rss}}},
	}})
}

// TestPage writes results to a page.
func TestPage(t *testing.T) {
	docs, out := t.TempDir(), t.TempDir()
	path := filepath.Join(docs, "README.md")
	if err := run(t.Context(), []string{"page", "-docs", docs, "-out", out}, quiet()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without results: %v", err)
	}
	growth := bench.NewReport([]bench.Result{{
		Trial: "one change", Of: "clusters", Size: 50, Figures: []bench.Figure{{Key: "cpu", Label: "one change", Unit: "µs"}},
		Samples: map[bench.Kind][]bench.Sample{bench.Gateway: {{"cpu": 123}}},
	}})
	page := "<!-- figures -->\n<!-- end of figures -->\n<!-- growth -->\n<!-- end of growth -->\n"
	err := errors.Join(idleReport(61.4).Write(filepath.Join(out, reportFile)), growth.Write(filepath.Join(out, growthFile)), os.WriteFile(path, []byte(page), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"page", "-docs", docs, "-out", out}, quiet()); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "61.4 MB") || !strings.Contains(string(text), "50 clusters: 123") {
		t.Errorf("%v\n%s", err, text)
	}
}
