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

// Program is a command from this repository, or a tool that this repository uses. Path returns a
// prebuilt program if its environment variable is set. Otherwise it builds the program in the bin
// directory of the repository.
type Program struct {
	Name string // built as bin/Name
	Env  string // environment variable with the path of a prebuilt program

	module string   // directory of the module, relative to the repository
	source string   // package path
	within string   // if set, the module in which main.go of source is built
	flags  []string // build flags
	env    string   // KEY=VALUE for the build
}

var (
	// Isthmus is built as in the Makefile. As in its image, it does not need other files.
	Isthmus = Program{
		Name:   "isthmus",
		Env:    "ISTHMUS_BINARY",
		module: ".",
		source: "./cmd/isthmus",
		flags:  []string{"-trimpath", "-tags=grpcnotrace"},
		env:    "CGO_ENABLED=0",
	}
	// Controlplane runs clusters. The first build takes minutes, later calls about a second. If
	// KUBEBUILDER_ASSETS is set, the build leaves out etcd and the API server, and the command runs
	// the programs from that directory.
	Controlplane = Program{
		Name: "controlplane", Env: "ISTHMUS_CONTROLPLANE", module: "e2e", source: "./cmd/controlplane",
		flags: assets.BuildFlags(),
	}
	// Prometheus is a Prometheus server without the service discovery for clouds. The first build
	// takes minutes.
	Prometheus = tool("prometheus", "ISTHMUS_PROMETHEUS", "github.com/prometheus/prometheus/cmd/prometheus")
	// Promtool checks rules and runs rule tests.
	Promtool = tool("promtool", "ISTHMUS_PROMTOOL", "github.com/prometheus/prometheus/cmd/promtool")
	Helm     = tool("helm", "ISTHMUS_HELM", "helm.sh/helm/v4/cmd/helm")
	// Kubectl is the oldest version that docs/install.md supports. All other tools need newer
	// versions of its dependencies.
	Kubectl = Program{
		Name: "oldest-kubectl", Env: "ISTHMUS_KUBECTL", module: "e2e/tools", source: "./kubectl",
		within: "k8s.io/kubectl",
	}
)

// tool returns a tool from the e2e/tools module, which separates the dependencies of tools from
// those of e2e.
func tool(name, env, source string) Program {
	return Program{Name: name, Env: env, module: "e2e/tools", source: source, flags: []string{"-tags=remove_all_sd"}}
}

// Path returns the path of the program, after it builds or updates the program if necessary.
// Several processes may call Path at the same time. Without a prebuilt program, the working
// directory must be inside of the repository.
func (p Program) Path(ctx context.Context) (path string, err error) {
	if path := os.Getenv(p.Env); path != "" {
		return path, nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("build the command %s: %w: or set %s to a prebuilt program", p.Name, err, p.Env)
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

	// As in the Makefile, -s -w omits symbols and DWARF, which reduces the file by a third.
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

// cached downloads the module p.within and returns its directory in the module cache. The module
// version is in version.txt beside the program's source.
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

// repository returns the root of the repository. The working directory must be in the root module
// or in e2e.
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
