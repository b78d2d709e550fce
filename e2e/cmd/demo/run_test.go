package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"isthmus/e2e/harness"
)

// watched is a writer that calls a function when a given text has been printed.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	line string
	then func()
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(b)
	if w.then != nil && strings.Contains(w.text.String(), w.line) {
		w.then()
		w.then = nil
	}
	return len(b), nil
}

// programs returns a directory with the real controlplane and the given program as isthmus.
func programs(t *testing.T, isthmus string) string {
	t.Helper()
	controlplane, err := harness.Controlplane.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for name, path := range map[string]string{"controlplane": controlplane, "isthmus": isthmus} {
		if path, err = filepath.Abs(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// nothingLeft returns a function that checks that the demo has left no directory and no process.
func nothingLeft(t *testing.T) (state string, check func()) {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	state = filepath.Join(t.TempDir(), "state")
	return state, func() {
		t.Helper()
		left, err := os.ReadDir(temp)
		if err != nil || len(left) > 0 {
			t.Errorf("left in the folder for temporary files: %v, %v", left, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(state, name, "pid"))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			pid, parseErr := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil || parseErr != nil {
				t.Errorf("the pid of %s: %v, %v", name, err, parseErr)
				continue
			}
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d of %s is there: %v", pid, name, err)
			}
		}
	}
}

// TestDemo runs the whole demo, including a cluster on another network, and ends it with Ctrl-C.
func TestDemo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	isthmus, err := harness.Isthmus.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, check := nothingLeft(t)
	out := &watched{line: "Everything keeps running", then: cancel}
	err = run(ctx, []string{"--keep", "--networks", "--bin", programs(t, isthmus)}, out)
	t.Log("\n" + out.text.String())
	if err != nil {
		t.Error(err)
	}
	for _, line := range []string{"\n  kill east's API server ", "\n  replace Isthmus once north is copied ",
		"isthmus clusters shows north as stale, from a copy of ", "\n  cordon north by its link ",
		"\n  annotate north's link with its network ",
		"\n  the other one fails too ", "Everything worked"} {
		if !strings.Contains(out.text.String(), line) {
			t.Errorf("it does not print %q", line)
		}
	}
	check()
}

// TestInterrupted ends the demo with Ctrl-C during the deployment.
func TestInterrupted(t *testing.T) {
	_, check := nothingLeft(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &watched{line: "start the API servers", then: cancel}
	err := run(ctx, []string{"--bin", programs(t, "/bin/false")}, out)
	if !errors.Is(err, harness.ErrInterrupted) {
		t.Errorf("got %v", err)
	}
	check()
}

// broken is a writer whose reader has ended.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestBrokenOutput ends the demo as "demo | head" does.
func TestBrokenOutput(t *testing.T) {
	_, check := nothingLeft(t)
	err := run(t.Context(), []string{"--bin", programs(t, "/bin/false")}, broken{})
	if !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v", err)
	}
	check()
}
