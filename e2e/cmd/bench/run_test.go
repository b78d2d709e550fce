package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isthmus/e2e/bench"
	"isthmus/e2e/cmd/internal/cli"
)

func quiet() process { return process{strings.NewReader(""), io.Discard, io.Discard} }

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"-nothing"}, {"-run", "("}, {"-run", "no such trial"}, {"fly"}, {"floor"}, {"floor", "a", "b"}, {"list"}, {"-addr", "127.0.0.1:1"}, {"-pid", "1"}, {"page", "more"},
	} {
		args = append(args[:len(args):len(args)], map[bool][]string{true: {"-out", t.TempDir()}}[args[0] != "floor" && args[0] != "list" && args[0] != "page"]...)
		if err := run(t.Context(), args, quiet()); !errors.As(err, new(cli.UsageError)) {
			t.Errorf("%q: %v", args, err)
		}
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"-help"}, process{nil, &out, io.Discard}); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "bench clusters") || !strings.Contains(out.String(), "-pid") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestPage writes results to a page.
func TestPage(t *testing.T) {
	docs, out := t.TempDir(), t.TempDir()
	path := filepath.Join(docs, "performance.md")
	if err := run(t.Context(), []string{"page", "-docs", docs, "-out", out}, quiet()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without results: %v", err)
	}
	idle := bench.Trials()[0]
	results := []bench.Result{{Trial: idle.Name, Samples: map[bench.Kind][]bench.Sample{bench.Gateway: {{idle.Metrics[0].Key: 61.4}}}}}
	growth := &bench.Growth{Lines: []bench.Line{{Title: "one change", X: "clusters", Unit: "µs", Points: []bench.Point{{X: 50, Cost: 123}}}}}
	page := "<!-- figures -->\n<!-- end of figures -->\n<!-- growth -->\n<!-- end of growth -->\n"
	err := errors.Join(bench.NewReport(bench.Config{}, results).Write(filepath.Join(out, reportFile)), growth.Write(filepath.Join(out, growthFile)), os.WriteFile(path, []byte(page), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"page", "-docs", docs, "-out", out}, quiet()); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"performance.md": "61.4 MB", "growth.svg": ">123<"} {
		if text, err := os.ReadFile(filepath.Join(docs, file)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
}
