// Package assets finds prebuilt kube-apiserver and etcd programs, so that tests and the demo need
// not compile them. As for envtest of controller-runtime, the environment variable
// KUBEBUILDER_ASSETS contains their directory.
//
// The package only imports the standard library, because make runs it before the first build.
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

// Env is the environment variable that contains the directory of the programs.
const Env = "KUBEBUILDER_ASSETS"

// Tag is the build tag that excludes the built-in servers from the controlplane command.
const Tag = "assets"

// Accepted describes the versions that Find accepts.
const Accepted = "Kubernetes 1.36 or newer and etcd 3.5.11 or newer"

var (
	oldestAPIServer = version{1, 36, 0}
	oldestEtcd      = version{3, 5, 11} // the minimum for Kubernetes 1.36
)

const hint = "accepted are " + Accepted + "; without " + Env + " both are compiled from source"

const versionLimit = 30 * time.Second

// Assets contains the programs found in a directory.
type Assets struct {
	Dir       string // absolute path
	APIServer Program
	Etcd      Program
}

type Program struct {
	Path    string
	Version string // version as printed by the program, without the v
}

// Named reports whether KUBEBUILDER_ASSETS is set.
func Named() bool { return os.Getenv(Env) != "" }

func BuildFlags() []string {
	if Named() {
		return []string{"-tags=" + Tag}
	}
	return nil
}

// Find returns the programs in the directory from KUBEBUILDER_ASSETS. It fails if a program is
// missing, does not run, or is too old.
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

// firstLine returns the separator and the quoted first line of an output, or an empty string if
// there is no output.
func firstLine(separator string, out []byte) string {
	const longest = 200
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if line == "" {
		return ""
	}
	return separator + strconv.QuoteToASCII(line[:min(len(line), longest)])
}

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

func parseVersion(out string) (text string, v version, ok bool) {
	match := versionText.FindStringSubmatch(out)
	if match == nil {
		return "", v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(match[i+2]) // the pattern allows at most four digits
	}
	return match[1], v, true
}
