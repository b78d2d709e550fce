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

// platformImage is the image for one platform.
type platformImage struct {
	image    v1.Image
	platform v1.Platform
	sbom     []byte
}

// papers returns what goes with a program: its SBOM, and the licences and notices of all that is
// linked in, by file name.
func (b *binary) papers(ctx context.Context) (texts map[string][]byte, sbom []byte, err error) {
	packages, err := b.packages(ctx)
	if err != nil {
		return nil, nil, err
	}
	goroot, err := output(ctx, "go", "env", "GOROOT")
	if err != nil {
		return nil, nil, err
	}
	if texts, err = notices(packages, goroot); err != nil {
		return nil, nil, err
	}
	sbom, err = b.sbom(dependencies(packages))
	texts["isthmus.cdx.json"] = sbom
	return texts, sbom, err
}

// image makes the image of one binary.
func (b *binary) image(ctx context.Context) (platformImage, error) {
	fail := func(err error) (platformImage, error) { return platformImage{}, err }
	texts, sbom, err := b.papers(ctx)
	if err != nil {
		return fail(err)
	}
	if texts["licenses/"+rootsModule+"/LICENSE"], err = rootsLicence(ctx); err != nil {
		return fail(err)
	}
	texts["etc/ssl/certs/ca-certificates.crt"] = roots()
	beside, err := layer(texts, 0o444, b.time)
	if err != nil {
		return fail(err)
	}
	program, err := layer(map[string][]byte{"isthmus": b.data}, 0o555, b.time)
	if err != nil {
		return fail(err)
	}
	base, err := mutate.ConfigFile(
		mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		b.config(),
	)
	if err != nil {
		return fail(err)
	}
	image, err := mutate.Append(base,
		b.added(beside, "certificates, licences and SBOM"),
		b.added(program, "the program"))
	return platformImage{image, b.platform(), sbom}, err
}

// added is a layer with its line of history.
func (b *binary) added(layer v1.Layer, what string) mutate.Addendum {
	return mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: b.time}, CreatedBy: "make image", Comment: what},
	}
}

// config is how the image is run: the user is the one that manifests/install names. Arguments come from there, or from
// Linkerd's chart; without any the program prints its help.
func (b *binary) config() *v1.ConfigFile {
	return &v1.ConfigFile{
		OS: b.platform().OS, Architecture: b.platform().Architecture, Created: v1.Time{Time: b.time},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: "65532:65532", Entrypoint: []string{"/isthmus"}, WorkingDir: "/",
			Env:          []string{"PATH=/"}, // for `kubectl exec POD -- isthmus`
			ExposedPorts: map[string]struct{}{"8086/tcp": {}, "9996/tcp": {}},
			Labels:       b.labels(),
		},
	}
}

// labels are those that the OCI has names for.
func (b *binary) labels() map[string]string {
	labels := map[string]string{
		"title":       "Isthmus",
		"description": "A multicluster federation gateway for Linkerd proxies.",
		"licenses":    "Apache-2.0",
		"created":     b.time.Format(time.RFC3339), "version": b.version, "revision": b.settings["vcs.revision"],
	}
	named := make(map[string]string)
	for key, value := range labels {
		if value != "" {
			named["org.opencontainers.image."+key] = value
		}
	}
	return named
}

// writeLayout writes images as one OCI layout, and returns the digest of its only entry: their index.
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

// load gives a docker daemon the image for its platform. Without docker the layout is all that is asked for.
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
	out.Close() // ends the writer, if docker has not read all
	if err != nil {
		return fmt.Errorf("docker load: %w", err)
	}
	fmt.Fprintf(w, "  docker      loaded for %s\n", platform)
	return nil
}

// daemon returns the platform that a docker daemon runs containers for, or why none can be asked.
func daemon(ctx context.Context) (platform string, err error) {
	ctx, done := context.WithTimeout(ctx, 20*time.Second)
	defer done()
	out, err := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Os}}/{{.Server.Arch}}").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// containerdName is a tag as containerd writes it, where what no registry is named for is docker.io's.
func containerdName(tag name.Tag) string {
	return strings.Replace(tag.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
}
