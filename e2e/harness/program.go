package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"isthmus/e2e/harness/assets"
)

// Program is a command of the repository, or a tool that it depends on: a ready-made one that the environment names, or
// the one in the repository's bin folder, which Path brings up to date first.
type Program struct {
	Name string // it is built to bin/Name
	Env  string // the environment variable that names a ready-made one

	module string   // the folder of its module, from the repository's root
	source string   // its package
	within string   // if set, the module that builds main.go of source, instead of the module that source is in
	flags  []string // to build it with
	env    string   // KEY=VALUE, to build it with
}

var (
	// Isthmus is the product, built as the Makefile does. As in its image, it needs no other file.
	Isthmus = Program{
		Name:   "isthmus",
		Env:    "ISTHMUS_BINARY",
		module: ".",
		source: "./cmd/isthmus",
		flags:  []string{"-trimpath", "-tags=grpcnotrace"},
		env:    "CGO_ENABLED=0",
	}
	// Controlplane runs clusters. Its first build takes minutes; one that
	// finds it up to date takes about a second. With KUBEBUILDER_ASSETS it
	// is built without etcd and the API server, and runs those of that folder.
	Controlplane = Program{
		Name: "controlplane", Env: "ISTHMUS_CONTROLPLANE", module: "e2e", source: "./cmd/controlplane",
		flags: assets.BuildFlags(),
	}
	// Prometheus is a Prometheus server, without the service discoveries of
	// clouds. Its first build takes minutes too.
	Prometheus = tool("prometheus", "ISTHMUS_PROMETHEUS", "github.com/prometheus/prometheus/cmd/prometheus")
	// Promtool checks rules and runs their tests.
	Promtool = tool("promtool", "ISTHMUS_PROMTOOL", "github.com/prometheus/prometheus/cmd/promtool")
	// Helm is Helm 4.
	Helm = tool("helm", "ISTHMUS_HELM", "helm.sh/helm/v4/cmd/helm")
	// Kubectl is the oldest kubectl that docs/install.md names. All other tools need newer versions of its
	// dependencies.
	Kubectl = Program{
		Name: "oldest-kubectl", Env: "ISTHMUS_KUBECTL", module: "e2e/tools", source: "./kubectl",
		within: "k8s.io/kubectl",
	}
)

// tool returns a tool of the module e2e/tools. That module keeps the dependencies of tools apart from those of e2e.
func tool(name, env, source string) Program {
	return Program{Name: name, Env: env, module: "e2e/tools", source: source, flags: []string{"-tags=remove_all_sd"}}
}

// Path returns the path of the command, once it is there and up to date. Several
// processes may call it at the same time. Unless the environment names a
// ready-made one, the working directory must be in the repository.
func (p Program) Path(ctx context.Context) (path string, err error) {
	if path := os.Getenv(p.Env); path != "" {
		return path, nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("build the command %s: %w; a ready-made one may be named by %s", p.Name, err, p.Env)
		}
	}()
	root, err := repository(ctx)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(bin, "."+p.Name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	path = filepath.Join(bin, p.Name)
	return path, p.build(ctx, root, path)
}

// build builds the program of the repository at root to a path.
func (p Program) build(ctx context.Context, root, path string) error {
	dir, source := filepath.Join(root, p.module), p.source
	if p.within != "" {
		main := filepath.Join(dir, source, "main.go")
		cached, err := p.cached(ctx, dir)
		if err != nil {
			return err
		}
		dir, source = cached, main
	}

	// As in the Makefile, -s -w leaves out symbols and DWARF. The file is a third smaller.
	args := slices.Concat([]string{"build", "-ldflags=-s -w", "-o", path}, p.flags, []string{source})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	if p.env != "" {
		cmd.Env = append(os.Environ(), p.env)
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	return nil
}

// cached downloads the module p.within and returns its folder in the module cache. Its version is in version.txt of
// the program's source.
func (p Program) cached(ctx context.Context, dir string) (string, error) {
	version, err := os.ReadFile(filepath.Join(dir, p.source, "version.txt"))
	if err != nil {
		return "", err
	}
	module := p.within + "@" + string(bytes.TrimSpace(version))

	download := exec.CommandContext(ctx, "go", "mod", "download", module)
	download.Dir = dir
	if text, err := download.CombinedOutput(); err != nil {
		return "", fmt.Errorf("download %s: %w\n%s", module, err, text)
	}

	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	list.Dir = dir
	folder, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", module, err)
	}
	return string(bytes.TrimSpace(folder)), nil
}

// repository finds the repository's root from the working directory, which lies in the root module or in e2e.
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
	return "", fmt.Errorf("%s is not in the repository", dir)
}
