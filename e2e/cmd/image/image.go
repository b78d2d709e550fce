package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

type platformImage struct {
	image    v1.Image
	platform v1.Platform
	sbom     []byte
}

// writeLayout writes the images to an OCI layout and returns the digest of their index, the only
// entry.
func writeLayout(dir string, tag name.Tag, images map[string]platformImage) (v1.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range slices.Sorted(maps.Keys(images)) {
		p := images[platform]
		index = mutate.AppendManifests(
			index,
			mutate.IndexAddendum{Add: p.image, Descriptor: v1.Descriptor{Platform: &p.platform}},
		)
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag.TagStr(),
		"io.containerd.image.name":          containerdName(tag),
	}))
	if err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// load loads the image for the docker daemon's platform. Without docker, it only prints the reason.
func load(ctx context.Context, w io.Writer, tag name.Tag, images map[string]platformImage) error {
	note := func(format string, args ...any) error {
		fmt.Fprintf(w, "  docker      not loaded: "+format+"\n", args...)
		return nil
	}
	platform, err := daemon(ctx)
	if errors.Is(err, exec.ErrNotFound) {
		return note("there is no docker")
	} else if err != nil {
		return note("%v", err)
	}
	p, there := images[platform]
	if !there {
		return note(
			"the daemon runs %s, and there is an image for %s only",
			platform,
			strings.Join(slices.Sorted(maps.Keys(images)), ", "),
		)
	}
	out, in := io.Pipe()
	cmd := exec.CommandContext(ctx, "docker", "load", "--quiet")
	cmd.Stdin, cmd.Stderr = out, os.Stderr
	go func() { in.CloseWithError(tarball.Write(tag, p.image, in)) }()
	err = cmd.Run()
	out.Close() // unblocks the writer if docker has not read everything
	if err != nil {
		return fmt.Errorf("docker load: %w", err)
	}
	fmt.Fprintf(w, "  docker      loaded for %s\n", platform)
	return nil
}

// daemon returns the platform of the docker daemon's containers, or the reason why the daemon is
// not available.
func daemon(ctx context.Context) (platform string, err error) {
	ctx, done := context.WithTimeout(ctx, 20*time.Second)
	defer done()
	out, err := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Os}}/{{.Server.Arch}}").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// containerdName returns a tag in containerd's format, in which the default registry is docker.io.
func containerdName(tag name.Tag) string {
	return strings.Replace(tag.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
}
