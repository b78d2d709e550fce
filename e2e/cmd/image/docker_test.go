package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
)

// TestLoad: without a docker that can take the image, a line states why, and that is no failure; it is one if docker refuses.
func TestLoad(t *testing.T) {
	tag, err := name.NewTag("isthmus:dev")
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]platformImage{"linux/amd64": {image: empty.Image}}
	for _, c := range []struct{ name, script, printed, err string }{
		{"none", "", "not loaded: there is no docker\n", ""},
		{"no daemon", "echo 'Cannot connect' >&2; exit 1", "not loaded: Cannot connect\n", ""},
		{"another platform", "echo linux/s390x", "not loaded: the daemon runs linux/s390x, and there is an image for linux/amd64 only\n", ""},
		{"refused", "case $1 in version) echo linux/amd64;; *) exit 3;; esac", "", "docker load: exit status 3"},
		{"loaded", "case $1 in version) echo linux/amd64;; *) exec /bin/cat >/dev/null;; esac", "loaded for linux/amd64\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", dir)
			if c.script != "" {
				if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			err := load(t.Context(), &out, tag, images)
			if got := errorText(err); got != c.err {
				t.Errorf("error %q, not %q", got, c.err)
			}
			if !strings.HasSuffix(out.String(), c.printed) || c.printed == "" && out.Len() > 0 {
				t.Errorf("printed %q", out.String())
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestNamed: an image has a tag, for docker and for containerd; a digest is none.
func TestNamed(t *testing.T) {
	for _, c := range []struct{ image, version, docker, containerd string }{
		{"isthmus", "", "isthmus:dev", "docker.io/library/isthmus:dev"},
		{"isthmus", "v1", "isthmus:v1", "docker.io/library/isthmus:v1"},
		{"registry.example.com:5000/isthmus", "v1", "registry.example.com:5000/isthmus:v1", "registry.example.com:5000/isthmus:v1"},
		{"registry.example.com/isthmus:demo", "v1", "registry.example.com/isthmus:demo", "registry.example.com/isthmus:demo"},
	} {
		tag, err := named(c.image, c.version)
		if err != nil || tag.String() != c.docker || containerdName(tag) != c.containerd {
			t.Errorf("%s %s: %s, %s, %v", c.image, c.version, tag, containerdName(tag), err)
		}
	}
	for image, version := range map[string]string{"isthmus": "v1+dirty", "Isthmus": "v1", "isthmus@sha256:0": "v1"} {
		if tag, err := named(image, version); err == nil {
			t.Errorf("%s %s: %s", image, version, tag)
		}
	}
}
