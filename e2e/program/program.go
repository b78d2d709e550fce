package program

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

	"isthmus/e2e/assets"
)

// Program is a command of the repository, or a tool that it depends on.
type Program struct {
	Name string // it is built to bin/Name
	Env  string // the environment variable that names a ready-made one

	module string   // the folder of its module, from the repository's root
	source string   // its package
	flags  []string // to build it with
	env    string   // KEY=VALUE, to build it with
}

var (
	// Isthmus is the product, built as the Makefile does. As in its image, it needs no other file.
	Isthmus = Program{
		Name: "isthmus", Env: "ISTHMUS_BINARY", module: ".", source: "./cmd/isthmus", flags: []string{"-trimpath", "-tags=grpcnotrace"}, env: "CGO_ENABLED=0",
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
	// Kubectl is the oldest kubectl that docs/install.md names. It has a module of its own, since everything else needs
	// newer versions of the same modules.
	Kubectl = Program{
		Name: "oldest-kubectl", Env: "ISTHMUS_KUBECTL", module: "e2e/kubectl/oldest", source: ".",
	}
)

// tool is a tool of the module e2e/tools, which keeps what Prometheus and Helm depend on
// apart from everything else.
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
	// -s -w, as in the Makefile: a third smaller, without symbols and DWARF.
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-ldflags=-s -w", "-o", path}, p.flags, []string{p.source})...)
	cmd.Dir = filepath.Join(root, p.module)
	if p.env != "" {
		cmd.Env = append(os.Environ(), p.env)
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, text)
	}
	return path, nil
}

// repository finds the repository's root from the working directory, which lies
// in one of its two modules.
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
