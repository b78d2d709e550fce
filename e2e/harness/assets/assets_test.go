package assets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	current    = "#!/bin/sh\necho Kubernetes v1.36.0\n"
	otherEtcd  = "#!/bin/sh\necho etcd Version: 3.5.11\necho Git SHA: 1.0.0\n"
	prerelease = "#!/bin/sh\necho Kubernetes v1.37.0-alpha.1+0f3c\n"
)

func TestFind(t *testing.T) {
	for name, test := range map[string]struct {
		apiServer, etcd string // shell scripts; an empty script means that the file does not exist
		versions        string // the expected versions
		problem         string // part of the expected error, or empty
	}{
		"oldest":            {current, otherEtcd, "1.36.0 3.5.11", ""},
		"prerelease":        {prerelease, otherEtcd, "1.37.0-alpha.1+0f3c 3.5.11", ""},
		"next major":        {"#!/bin/sh\necho Kubernetes v2.0.0\n", otherEtcd, "2.0.0 3.5.11", ""},
		"no kube-apiserver": {"", otherEtcd, "", "has no kube-apiserver"},
		"no etcd":           {current, "", "", "has no etcd"},
		"old Kubernetes": {
			"#!/bin/sh\necho Kubernetes v1.35.9\n", otherEtcd, "",
			"kube-apiserver has version 1.35.9, which is too old",
		},
		"old etcd": {
			current, "#!/bin/sh\necho etcd Version: 3.5.9\n", "", "etcd has version 3.5.9, which is too old",
		},
		"no version":      {"#!/bin/sh\necho Kubernetes v1\n", otherEtcd, "", `prints no version: "Kubernetes v1"`},
		"nothing printed": {"#!/bin/sh\n", otherEtcd, "", "kube-apiserver --version prints no version"},
		"fails": {
			"#!/bin/sh\necho wrong machine >&2\nexit 3\n", otherEtcd, "", `exit status 3: "wrong machine"`,
		},
		"not a program": {"nothing", otherEtcd, "", "exec format error"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a folder")
			must(t, os.Mkdir(dir, 0o755))
			for file, text := range map[string]string{"kube-apiserver": test.apiServer, "etcd": test.etcd} {
				if text != "" {
					must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755))
				}
			}
			t.Setenv(Env, dir)
			found, err := Find(t.Context())
			if test.problem != "" {
				expectError(t, err, test.problem)
				return
			}
			must(t, err)
			if got := found.APIServer.Version + " " + found.Etcd.Version; got != test.versions {
				t.Errorf("found %s, not %s", got, test.versions)
			}
		})
	}
}

func TestFindFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o644))
	locked := t.TempDir()
	must(t, os.WriteFile(filepath.Join(locked, "kube-apiserver"), []byte(current), 0o644))
	for path, problem := range map[string]string{
		"":                              "not set",
		filepath.Join(dir, "elsewhere"): "does not exist",
		file:                            "is not a folder",
		locked + "/":                    filepath.Join(locked, "kube-apiserver") + ": permission denied",
	} {
		t.Setenv(Env, path)
		_, err := Find(t.Context())
		expectError(t, err, problem)
	}
}

// expectError expects an error with the variable, the problem and the accepted versions.
func expectError(t *testing.T, err error, problem string) {
	t.Helper()
	for _, part := range []string{Env, problem, Accepted} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, without %q", err, part)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
