// Package assets finds a ready-made kube-apiserver and etcd, so that clusters of tests and of the demo need not be
// compiled. The environment variable KUBEBUILDER_ASSETS names their folder, as for envtest of controller-runtime.
//
// The package imports the standard library only, because make runs it before the first build.
package assets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Env is the environment variable that names the folder.
const Env = "KUBEBUILDER_ASSETS"

// Tag is the build tag that leaves the compiled-in servers out of the controlplane command.
const Tag = "assets"

// Accepted states which versions Find accepts.
const Accepted = "Kubernetes 1.36 or newer and etcd 3.5.11 or newer"

var (
	oldestAPIServer = version{1, 36, 0}
	oldestEtcd      = version{3, 5, 11} // what Kubernetes 1.36 asks of etcd
)

// hint ends the errors of Find.
const hint = "accepted are " + Accepted + "; without " + Env + " both are compiled from source"

// versionLimit bounds how long a program may take to print its version.
const versionLimit = 30 * time.Second

// Assets are the programs of a folder.
type Assets struct {
	Dir       string // absolute
	APIServer Program
	Etcd      Program
}

// Program is one of the two programs.
type Program struct {
	Path    string
	Version string // as the program prints it, without a v
}

// Named reports whether the environment names a folder.
func Named() bool { return os.Getenv(Env) != "" }

// BuildFlags returns the flags of go build for the controlplane command.
func BuildFlags() []string {
	if Named() {
		return []string{"-tags=" + Tag}
	}
	return nil
}

// Find returns the programs of the folder that the environment names. It fails if one of them is missing,
// does not run, or is too old.
func Find(ctx context.Context) (*Assets, error) {
	found, err := find(ctx, os.Getenv(Env))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", Env, err, hint)
	}
	return found, nil
}

func find(ctx context.Context, dir string) (*Assets, error) {
	if dir == "" {
		return nil, errors.New("not set")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("folder %s does not exist", dir)
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder", dir)
	}

	found := &Assets{Dir: dir}
	if found.APIServer, err = findProgram(ctx, dir, "kube-apiserver", oldestAPIServer); err != nil {
		return nil, err
	}
	if found.Etcd, err = findProgram(ctx, dir, "etcd", oldestEtcd); err != nil {
		return nil, err
	}
	return found, nil
}

// findProgram returns the program of that name in the folder.
func findProgram(ctx context.Context, dir, name string, oldest version) (Program, error) {
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return Program{}, fmt.Errorf("folder %s has no %s", dir, name)
	}
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		return Program{}, fmt.Errorf("%s --version: %w%s", path, err, firstLine(": ", out))
	}
	text, v, ok := parseVersion(string(out))
	if !ok {
		return Program{}, fmt.Errorf("%s --version prints no version%s", path, firstLine(": ", out))
	}
	if v.less(oldest) {
		return Program{}, fmt.Errorf("%s has version %s, which is too old", path, text)
	}
	return Program{Path: path, Version: text}, nil
}

// firstLine returns the first line of an output after the separator, or nothing if there is none.
func firstLine(separator string, out []byte) string {
	const longest = 200
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if line == "" {
		return ""
	}
	return separator + strconv.QuoteToASCII(line[:min(len(line), longest)])
}

// version is major, minor and patch.
type version [3]int

func (v version) less(other version) bool {
	for i := range v {
		if v[i] != other[i] {
			return v[i] < other[i]
		}
	}
	return false
}

// versionText matches the version in "Kubernetes v1.37.1" and "etcd Version: 3.7.0".
var versionText = regexp.MustCompile(`\bv?((\d{1,4})\.(\d{1,4})\.(\d{1,4})[-+.0-9A-Za-z]*)`)

// parseVersion returns the first version in the output of a program.
func parseVersion(out string) (text string, v version, ok bool) {
	match := versionText.FindStringSubmatch(out)
	if match == nil {
		return "", v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(match[i+2]) // four digits at most
	}
	return match[1], v, true
}
