package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"isthmus/e2e/harness"
)

// Directories relative to the repository, which is the working directory under make.
const (
	bin   = "bin"
	out   = "out/skew"     // logs
	state = out + "/state" // temporary state, removed at the end
)

func main() {
	harness.Main("skew", func(ctx context.Context) error {
		if len(os.Args) != 2 {
			return harness.Usagef("usage: skew FILE, the isthmus command of an earlier version")
		}
		return run(ctx, os.Args[1])
	})
}

// run performs the upgrade and the rollback. When it returns, all processes that it started have
// ended.
func run(ctx context.Context, previous string) (err error) {
	if _, err := os.Stat(previous); err != nil {
		return harness.Usage(err)
	}
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(state, 0o755)); err != nil {
		return err
	}
	knows, err := knowsExports(ctx, previous)
	if err != nil {
		return err
	}
	w := &world{exports: knows}
	defer func() { err = errors.Join(err, w.close(), os.RemoveAll(state)) }()
	if err := w.start(ctx); err != nil {
		return err
	}
	binaries := map[string]string{older: previous, newer: filepath.Join(bin, "isthmus")}
	s := &story{world: w, replicas: newReplicas(w, binaries)}
	defer func() { err = errors.Join(err, s.end()) }()
	return s.tell(ctx)
}

func knowsExports(ctx context.Context, binary string) (bool, error) {
	help, err := exec.CommandContext(ctx, binary, "gateway", "--help").CombinedOutput()
	if err != nil {
		return false, fmt.Errorf("%s gateway --help: %w", binary, err)
	}
	return strings.Contains(string(help), "--exports"), nil
}
