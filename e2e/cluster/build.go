package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// BinaryEnv names the environment variable that holds the path of a ready-made
// controlplane command.
const BinaryEnv = "ISTHMUS_CONTROLPLANE"

// Build compiles the controlplane command to the file out. The first build
// takes minutes; one that finds out up to date takes about a second. It must
// be called within the folder of module isthmus/e2e, or in the repository's
// root.
func Build(ctx context.Context, out string) error {
	module, err := moduleDir(ctx)
	if err != nil {
		return err
	}
	return build(ctx, module, out)
}

func build(ctx context.Context, module, out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	// -s -w: without symbols and DWARF the binary is a third smaller.
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", out, "./cmd/controlplane")
	cmd.Dir = module
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the controlplane command: %w\n%s", err, text)
	}
	return nil
}

// Binary returns the path of the controlplane command: the one that the
// environment variable ISTHMUS_CONTROLPLANE names, or else the repository's
// bin/controlplane, which it brings up to date first. Several processes may
// call it at the same time.
func Binary(ctx context.Context) (path string, err error) {
	if path := os.Getenv(BinaryEnv); path != "" {
		return path, nil
	}
	module, err := moduleDir(ctx)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(filepath.Dir(module), "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("build the controlplane command: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(bin, ".controlplane.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("build the controlplane command: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	path = filepath.Join(bin, "controlplane")
	return path, build(ctx, module, path)
}

// moduleDir finds the folder of module isthmus/e2e from the working directory.
func moduleDir(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOMOD")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find the e2e module: go env GOMOD: %w", err)
	}
	dir := filepath.Dir(string(bytes.TrimSpace(out)))
	for _, dir := range []string{dir, filepath.Join(dir, "e2e")} {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "controlplane")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find the e2e module: %s is not in the repository; name a ready-made command by %s", dir, BinaryEnv)
}
