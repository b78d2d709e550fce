package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	tag := flag.String("tag", "isthmus", "The image's name. Its tag, if it has none, is the version, or dev.")
	version := flag.String("version", "", "The program's version, if the linker was given one.")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: image [-tag NAME[:TAG]] [-version VERSION] BINARY...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(ctx, *tag, *version, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run makes the image of some binaries, and prints where it is.
func run(ctx context.Context, tagged, version string, paths []string) error {
	tag, err := named(tagged, version)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return errors.New("no binary is given")
	}
	images := make(map[string]platformImage)
	for _, path := range paths {
		b, err := readBinary(path, version)
		if err != nil {
			return err
		}
		image, err := b.image(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		platform := b.platform().String()
		if _, twice := images[platform]; twice {
			return fmt.Errorf("%s: there are two binaries for %s", path, platform)
		}
		images[platform] = image
		if err := os.WriteFile(path+".cdx.json", image.sbom, 0o644); err != nil {
			return err
		}
	}
	layout := filepath.Join(filepath.Dir(paths[0]), "layout")
	digest, err := writeLayout(layout, tag, images)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %s\n", tag, digest)
	fmt.Printf("  OCI layout  %s\n", layout)
	fmt.Printf("  SBOM        %s\n", strings.Join(paths, ".cdx.json, ")+".cdx.json")
	return load(ctx, os.Stdout, tag, images)
}

// named returns the image's name and tag, which is the version if the name has none.
func named(image, version string) (name.Tag, error) {
	tag, err := name.NewTag(image, name.WithDefaultTag(cmp.Or(version, "dev")))
	if err == nil && !strings.HasSuffix(image, ":"+tag.TagStr()) {
		tag, err = name.NewTag(image + ":" + tag.TagStr()) // docker is given it as it is written
	}
	if err != nil {
		return tag, fmt.Errorf("name of the image: %w", err)
	}
	return tag, nil
}
