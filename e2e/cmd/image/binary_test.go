package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhen: SOURCE_DATE_EPOCH wins over the commit's time; without both it is 1970.
func TestWhen(t *testing.T) {
	for _, c := range []struct{ epoch, commit, want string }{
		{"", "", "1970-01-01 00:00:00 +0000 UTC"},
		{"", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05 +0000 UTC"},
		{"1700000000", "2026-01-02T03:04:05Z", "2023-11-14 22:13:20 +0000 UTC"},
	} {
		t.Setenv("SOURCE_DATE_EPOCH", c.epoch)
		got, err := (&binary{settings: map[string]string{"vcs.time": c.commit}}).when()
		if err != nil || got.String() != c.want {
			t.Errorf("%v, %v; not %s", got, err, c.want)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := new(binary).when(); err == nil {
		t.Error("yesterday is taken as a number of seconds")
	}
}

// TestReadBinary: what the Go tool has not built without cgo is refused.
func TestReadBinary(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/does/not/exist": "no such file", text: "unrecognized file format"} {
		if _, err := readBinary(path, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
