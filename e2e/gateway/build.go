package gateway

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

// BinaryEnv names the environment variable that holds the path of a ready-made isthmus command.
const BinaryEnv = "ISTHMUS_BINARY"

// Binary returns the path of the isthmus command: the one that the environment variable ISTHMUS_BINARY names, or else
// the repository's bin/isthmus, which it brings up to date first. Several processes may call it at the same time; the
// working directory must be in the repository.
func Binary(ctx context.Context) (path string, err error) {
	if path := os.Getenv(BinaryEnv); path != "" {
		return path, nil
	}
	root, err := repository(ctx)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("build the isthmus command: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(bin, ".isthmus.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("build the isthmus command: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	path = filepath.Join(bin, "isthmus")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/isthmus")
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the isthmus command: %w\n%s", err, text)
	}
	return path, nil
}

// repository finds the repository's root from the working directory, which lies in one of its two modules.
func repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: go env GOMOD: %w", err)
	}
	dir := filepath.Dir(string(bytes.TrimSpace(out)))
	for _, root := range []string{dir, filepath.Dir(dir)} {
		if _, err := os.Stat(filepath.Join(root, "e2e", "go.mod")); err == nil {
			return root, nil
		}
	}
	return "", fmt.Errorf("find the repository: %s is not in it; name a ready-made command by %s", dir, BinaryEnv)
}
