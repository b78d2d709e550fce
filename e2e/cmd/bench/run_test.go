package main

import (
	"cmp"
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

// TestMissed: a run that misses a target ends with an error, and is printed and kept all the same.
func TestMissed(t *testing.T) {
	idle, o := bench.Trials()[0], options{out: t.TempDir()}
	for _, x := range []struct {
		rss  float64
		want string
	}{{idle.Metrics[0].Most, ""}, {idle.Metrics[0].Most + 1, "over target: idle: " + idle.Metrics[0].Label}} {
		text := fmt.Sprintf(`{"Results": [{"Trial": "idle", "Samples": {"gateway": [{"rss": %f}]}}]}`, x.rss)
		must(t, os.WriteFile(filepath.Join(o.out, reportFile), []byte(text), 0o600))
		report, err := bench.ReadReport(filepath.Join(o.out, reportFile))
		must(t, err)
		must(t, os.Remove(filepath.Join(o.out, reportFile)))
		var out strings.Builder
		if err := keep(report, time.Minute, o, &out); fmt.Sprint(err) != cmp.Or(x.want, "<nil>") {
			t.Errorf("%g MB: %v", x.rss, err)
		}
		if kept, err := bench.ReadReport(filepath.Join(o.out, reportFile)); err != nil || !reflect.DeepEqual(kept, report) {
			t.Errorf("kept is %+v, %v", kept, err)
		}
		if line := fmt.Sprintf("%.0f MB", x.rss); !strings.Contains(out.String(), line) {
			t.Errorf("%q is not printed:\n%s", line, out.String())
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestPage writes results to a page.
func TestPage(t *testing.T) {
	docs, out := t.TempDir(), t.TempDir()
	path := filepath.Join(docs, "README.md")
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
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "61.4 MB") || !strings.Contains(string(text), "50 clusters: 123") {
		t.Errorf("%v\n%s", err, text)
	}
}
