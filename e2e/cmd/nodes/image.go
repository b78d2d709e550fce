//go:build linux

package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
)

// writeImage writes an image of one static program, named as the image is, in the form of `docker save`.
func writeImage(path, name, program string) (err error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layerPath := path + ".layer"
	if err := writeTar(layerPath, map[string][]byte{"program": data}); err != nil {
		return err
	}
	defer os.Remove(layerPath)
	layer, err := os.ReadFile(layerPath)
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Entrypoint": []string{"/program"}, "User": "65532:65532"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]any{map[string]any{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	return writeTar(path, map[string][]byte{"config.json": config, "manifest.json": manifest, "layer.tar": layer})
}

// writeLayout writes what is in a folder, such as an image's layout, as one file.
func writeLayout(path, dir string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(f)
	return errors.Join(archive.AddFS(os.DirFS(dir)), archive.Close(), f.Close())
}

func writeTar(path string, files map[string][]byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	archive := tar.NewWriter(f)
	for name, data := range files {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))}); err != nil {
			return err
		}
		if _, err := archive.Write(data); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return f.Close()
}
