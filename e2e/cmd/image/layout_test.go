// Package main_test runs make image and make build like a user. The tests copy the repository's
// files to temporary directories, commit them with a fixed time, and run make with a shell script
// in place of docker. They read the layout according to the OCI specification instead of using the
// library that wrote it, and run the program with only the image's files.
package main_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// sources copies the repository's files to a directory without git metadata.
func sources(t *testing.T, to string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	must(t, err)
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, below)
		switch {
		case slices.Contains([]string{".git", "bin", "out"}, below) && d.IsDir():
			return fs.SkipDir
		case below == ".git": // in a worktree, a copy of this file would refer to the original repository
			return nil
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(to, target)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, info.Mode())
	}))
}

// commitAll creates a git repository with one commit in a directory and returns the commit. The
// same files always result in the same commit.
func commitAll(t *testing.T, dir string) string {
	t.Helper()
	git := func(args ...string) string {
		cmd := exec.CommandContext(
			t.Context(),
			"git",
			append([]string{"-C", dir, "-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
		return output(t, cmd)
	}
	git("init", "--quiet")
	git("add", "--all")
	git("commit", "--quiet", "--message", "all")
	return strings.TrimSpace(git("rev-parse", "HEAD"))
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out.Bytes(), log.Bytes())
	}
	return out.String()
}

// makes runs make in a directory with a shell script in place of docker.
func makes(t *testing.T, dir, docker string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"-C", dir}, args...)...)
	cmd.Env = withDocker(t, docker)
	return output(t, cmd)
}

// withDocker returns the environment of this process with a shell script in place of docker, and
// without the variables of a parent make.
func withDocker(t *testing.T, script string) []string {
	t.Helper()
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "docker"), []byte("#!/bin/sh\n"+script), 0o755))
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(
			[]string{
				"MAKEFLAGS",
				"MAKEOVERRIDES",
				"MAKELEVEL",
				"VERSION",
				"IMAGE",
				"PLATFORMS",
				"REGISTRY",
				"SOURCE_DATE_EPOCH",
			},
			name,
		)
	})
	return append(env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

const noDocker = "echo 'Cannot connect to the Docker daemon.' >&2; exit 1\n"

const thisPlatform = "linux/" + runtime.GOARCH

// content is a descriptor or a manifest from the OCI specification.
type content struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    map[string]string `json:"platform"`
	Annotations map[string]string `json:"annotations"`
}

type imageConfig struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Created      string `json:"created"`
	Config       struct {
		User, WorkingDir string
		Entrypoint, Cmd  []string
		Labels           map[string]string
	} `json:"config"`
	RootFS struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// blob reads a blob from an OCI layout and checks its digest and size.
func blob(t *testing.T, layout string, c content) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(layout, "blobs", strings.Replace(c.Digest, ":", "/", 1)))
	must(t, err)
	if got := digest(data); got != c.Digest || int64(len(data)) != c.Size {
		t.Errorf("%s of %d bytes is %s of %d", c.Digest, c.Size, got, len(data))
	}
	return data
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func parse[T any](t *testing.T, text []byte) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

type file struct {
	header tar.Header
	data   []byte
}

// unpack unpacks a layer and checks its uncompressed digest.
func unpack(t *testing.T, layer []byte, diffID string) map[string]file {
	t.Helper()
	text := unzip(t, layer)
	if got := digest(text); got != diffID {
		t.Errorf("the layer is %s, and the configuration has %s", got, diffID)
	}
	return untar(t, text)
}

func unzip(t *testing.T, data []byte) []byte {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	text, err := io.ReadAll(unzipped)
	must(t, err)
	return text
}

func untar(t *testing.T, text []byte) map[string]file {
	t.Helper()
	files := make(map[string]file)
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		header, err := r.Next()
		if err == io.EOF {
			return files
		}
		must(t, err)
		data, err := io.ReadAll(r)
		must(t, err)
		files[strings.TrimSuffix(header.Name, "/")] = file{*header, data}
	}
}
