package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// layer returns a layer with files that everybody can read and nobody can write.
func layer(files map[string][]byte, mode fs.FileMode, when time.Time) (v1.Layer, error) {
	text, err := archive(files, func(string) fs.FileMode { return mode }, when)
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil },
		tarball.WithCompressionLevel(
			gzip.DefaultCompression,
		),
		tarball.WithCompressedCaching,
		tarball.WithMediaType(types.OCILayer),
	)
}

// archive returns a reproducible tar file with the files and their directories.
func archive(files map[string][]byte, mode func(name string) fs.FileMode, when time.Time) ([]byte, error) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	made := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, dir := range folders(name) {
			if made[dir] {
				continue
			}
			made[dir] = true
			if err := w.WriteHeader(&tar.Header{
				Typeflag: tar.TypeDir,
				Name:     dir + "/",
				Mode:     0o755,
				ModTime:  when,
			}); err != nil {
				return nil, err
			}
		}
		if err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg,
			Name:     name,
			Mode:     int64(mode(name)),
			ModTime:  when,
			Size:     int64(len(files[name])),
		}); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return text.Bytes(), err
}

// folders returns the parent directories of a file, outermost first.
func folders(name string) []string {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	return append(folders(dir), dir)
}

// rootsModule contains Mozilla's root certificates and is maintained by the Go team.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// roots returns Mozilla's root certificates as PEM. It omits certificates that Mozilla trusts only
// with constraints, such as a date, because a PEM file cannot express constraints.
func roots() []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "# Mozilla's root certificates, by %s %s\n", rootsModule, moduleVersion(rootsModule))
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return text.Bytes()
}

func rootsLicense(ctx context.Context) ([]byte, error) {
	dir, err := output(ctx, "go", "-C", "e2e", "list", "-m", "-f", "{{.Dir}}", rootsModule)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, "LICENSE"))
}

func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "of an unknown version"
}
