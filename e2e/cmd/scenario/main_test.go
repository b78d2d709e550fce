package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isthmus/e2e/cmd/internal/cli"
)

func TestArguments(t *testing.T) {
	all := []string{"-cluster", "west=w", "-cluster=east=e", "-cluster", "north=n"}
	a, err := parse(append(all, "-addr", "127.0.0.1:1", "-metrics", "127.0.0.1:2", "-v", "-count", "3", "x", "y"), io.Discard)
	if err != nil || len(a.start.Kubeconfigs) != 3 || a.start.Kubeconfigs["east"] != "e" || !a.verbose || a.count != 3 || len(a.paths) != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	for _, bad := range [][]string{
		{},
		{"-nonsense", "x"},
		{"-run", "(", "x"},
		{"-count", "0", "x"},
		{"-cluster", "south=s", "x"},
		{"-cluster", "west", "x"},
		{"-cluster", "west=w", "x"},
		{"-addr", "127.0.0.1:1", "-metrics", "127.0.0.1:2", "x"},
		append(all, "-addr", "127.0.0.1:1", "x"),
	} {
		if _, err := parse(bad, io.Discard); !errors.As(err, new(cli.UsageError)) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	var help strings.Builder
	if _, err := parse([]string{"-help"}, &help); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help.String(), "-gateway path") {
		t.Errorf("%v, %s", err, help.String())
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a-1.txtar": "settle\n", "a-2.txtar": "settle\n", "b.txtar": "settle\n", "other.txt": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := func(args ...string) (string, error) {
		a, err := parse(args, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := load(a)
		var all []string
		for _, c := range cases {
			all = append(all, c.Name)
		}
		return strings.Join(all, " "), err
	}
	if got, err := names(dir); err != nil || got != "a-1 a-2 b" {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := names("-run", "^a", dir, filepath.Join(dir, "b.txtar")); err != nil || got != "a-1 a-2" {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := names("-run", "nothing", dir); !errors.As(err, new(cli.UsageError)) {
		t.Errorf("no cases: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "c.txtar"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := names(dir, filepath.Join(dir, "nowhere")); !errors.As(err, new(cli.UsageError)) ||
		!strings.Contains(err.Error(), "c.txtar:1") || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("mistakes: %v", err)
	}
}
