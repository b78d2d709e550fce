package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// release contains everything that users install without a clone. The same commit always results in
// the same files.
type release struct {
	version   string // such as v0.1.0
	registry  string // for image and chart; if empty, the image is called isthmus
	manifests string // path of the program that prints manifests
	out       string // output directory

	when time.Time // for all files
}

// make builds a release from binaries. The working directory must be the root of the sources.
func (r *release) make(ctx context.Context, paths []string) error {
	if semver.Canonical(r.version) != r.version || r.version == "" {
		return fmt.Errorf("VERSION=%s is no version: give it as v0.1.0, or v0.2.0-rc.1", r.version)
	}
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	notes, err := notesOf(string(changes), r.version)
	if err != nil {
		return err
	}
	if err := os.Mkdir(r.out, 0o755); err != nil {
		return err
	}
	var linux []*binary
	for _, path := range paths {
		b, err := readBinary(path, r.version)
		if err == nil {
			err = r.archive(ctx, b)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if b.platform().OS == "linux" {
			linux = append(linux, b)
		}
		r.when = b.time
	}
	digest, err := r.image(ctx, linux)
	if err != nil {
		return err
	}
	if err := r.install(ctx, digest); err != nil {
		return err
	}
	if err := r.chart(ctx, digest); err != nil {
		return err
	}
	if err := r.plugin(ctx); err != nil {
		return err
	}
	if err := r.write("notes.md", []byte(notes)); err != nil {
		return err
	}
	return r.sums()
}

func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

func (r *release) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

func (r *release) packed(name string, files map[string][]byte, when time.Time) error {
	data, err := archive(files, func(name string) fs.FileMode {
		if name == "isthmus" {
			return 0o755
		}
		return 0o644
	}, when)
	if err != nil {
		return err
	}
	var small bytes.Buffer
	w, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return r.write(name, small.Bytes())
}

// archive packs a program with its licenses and SBOM. It also writes the SBOM as a separate file.
func (r *release) archive(ctx context.Context, b *binary) error {
	if b.settings["vcs.revision"] == "" || b.settings["vcs.modified"] != "false" {
		return errors.New("it was not built from a commit alone: commit what is changed, and build it in a clone")
	}
	if b.info.Main.Version != r.version {
		return fmt.Errorf(
			"it was built from %s: give the commit the tag %s first, which is a part of the program",
			b.info.Main.Version,
			r.version,
		)
	}
	files, sbom, err := b.papers(ctx)
	if err != nil {
		return err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	files["isthmus"], files["LICENSE"] = b.data, license
	name := fmt.Sprintf("isthmus_%s_%s_%s", r.number(), b.platform().OS, b.platform().Architecture)
	if err := r.write(name+".cdx.json", sbom); err != nil {
		return err
	}
	return r.packed(name+".tar.gz", files, b.time)
}

// image writes the image's layout as a single file and returns the image's digest.
func (r *release) image(ctx context.Context, binaries []*binary) (digest string, err error) {
	images, err := imagesOf(ctx, binaries)
	if err != nil {
		return "", err
	}
	tag, err := named(r.imageName(), r.version)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "isthmus-layout-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	hash, err := writeLayout(dir, tag, images)
	if err != nil {
		return "", err
	}
	files, err := readAll(dir)
	if err != nil {
		return "", err
	}
	data, err := archive(files, func(string) fs.FileMode { return 0o644 }, r.when)
	if err != nil {
		return "", err
	}
	fmt.Printf("%s@%s\n", tag, hash)
	return hash.String(), r.write("isthmus_"+r.number()+"_image.tar", data)
}

func (r *release) imageName() string {
	if r.registry == "" {
		return "isthmus"
	}
	return strings.TrimSuffix(r.registry, "/") + "/isthmus"
}

// install writes the manifests. Without a registry, they cannot refer to the image by digest.
func (r *release) install(ctx context.Context, digest string) error {
	image := r.imageName() + ":" + r.version
	if r.registry != "" {
		image += "@" + digest
	}
	cmd := exec.CommandContext(ctx, r.manifests, "manifests", "IMAGE="+image, "VERSION="+r.version)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", r.manifests, err)
	}
	return r.write("install.yaml", text)
}

func (r *release) chart(ctx context.Context, digest string) error {
	files, err := committed(ctx, "manifests/chart")
	if err != nil {
		return err
	}
	if r.registry == "" {
		digest = ""
	}
	err = errors.Join(
		set(files, "Chart.yaml", "version", r.number()),
		set(files, "Chart.yaml", "appVersion", r.version),
		set(
			files,
			"values.yaml",
			"repository",
			r.imageName(),
		),
		set(files, "values.yaml", "digest", fmt.Sprintf("%q", digest)),
	)
	if err != nil {
		return fmt.Errorf("manifests/chart: %w", err)
	}
	return r.packed("isthmus-"+r.number()+".tgz", below("isthmus", files), r.when)
}

// plugin packs the Helm 4 plugin that runs isthmus post-render.
func (r *release) plugin(ctx context.Context) error {
	files, err := committed(ctx, "manifests/linkerd/helm-plugin")
	if err != nil {
		return err
	}
	if err := set(files, "plugin.yaml", "version", r.number()); err != nil {
		return err
	}
	return r.packed("isthmus-post-render-"+r.number()+".tgz", below("isthmus-post-render", files), r.when)
}

// set sets the value on the only line of a file that begins with a key.
func set(files map[string][]byte, file, key, value string) error {
	line := regexp.MustCompile(`(?m)^( *` + key + `: ).*$`)
	if found := line.FindAll(files[file], -1); len(found) != 1 {
		return fmt.Errorf("%s has %d lines with the key %s", file, len(found), key)
	}
	files[file] = line.ReplaceAll(files[file], []byte("${1}"+value))
	return nil
}

// sums writes the file SHA256SUMS in the format that sha256sum --check reads.
func (r *release) sums() error {
	files, err := readAll(r.out)
	if err != nil {
		return err
	}
	var lines []string
	for name, data := range files {
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(data), name))
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[64:], b[64:]) })
	return r.write("SHA256SUMS", []byte(strings.Join(lines, "")))
}

// notesOf returns the section about a version in CHANGELOG.md. The section's heading may end in a
// date: "## v0.1.0 - 2026-11-30".
func notesOf(changes, version string) (string, error) {
	heading := regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(version) + `( - \d{4}-\d{2}-\d{2})?$`)
	found := heading.FindStringIndex(changes)
	if found == nil {
		return "", fmt.Errorf("CHANGELOG.md has no section %q: move the entries of \"Unreleased\" to it", "## "+version)
	}
	text, _, _ := strings.Cut(changes[found[1]:], "\n## ")
	return strings.TrimSpace(text) + "\n", nil
}

// below moves files into a directory, as Helm requires.
func below(dir string, files map[string][]byte) map[string][]byte {
	packed := make(map[string][]byte)
	for name, text := range files {
		packed[dir+"/"+name] = text
	}
	return packed
}

// committed reads the files in a directory that are tracked by git, by their relative path. It
// skips files such as backups from editors.
func committed(ctx context.Context, dir string) (map[string][]byte, error) {
	list, err := output(ctx, "git", "ls-files", "--", dir)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for path := range strings.Lines(list) {
		path = strings.TrimSpace(path)
		if files[strings.TrimPrefix(path, dir+"/")], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func readAll(dir string) (map[string][]byte, error) {
	files, tree := make(map[string][]byte), os.DirFS(dir)
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[path], err = fs.ReadFile(tree, path)
		}
		return err
	})
	return files, err
}
