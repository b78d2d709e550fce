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
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ExitOnError)
	version := flags.String("version", "", "The program's version, if the linker was given one.")
	flags.Usage = func() {
		fmt.Fprintln(
			flags.Output(),
			"Usage: image [-tag NAME[:TAG]] [-version VERSION] BINARY...\n       image release -version VERSION "+
				"[-registry REGISTRY] -manifests PROGRAM -out DIR BINARY...",
		)
		flags.PrintDefaults()
	}
	if len(args) > 0 && args[0] == "release" {
		r := release{}
		flags.StringVar(
			&r.registry,
			"registry",
			"",
			"Where image and chart will be, such as registry.example.com/mesh.",
		)
		flags.StringVar(&r.manifests, "manifests", "manifests", "The program that prints manifests.")
		flags.StringVar(&r.out, "out", "out/release", "The folder that is written. It must not be there.")
		_ = flags.Parse(args[1:]) // exits on an error
		r.version = *version
		return r.make(ctx, flags.Args())
	}
	tag := flags.String("tag", "isthmus", "The image's name. Its tag, if it has none, is the version, or dev.")
	_ = flags.Parse(args) // exits on an error
	return run(ctx, *tag, *version, flags.Args())
}

func run(ctx context.Context, tagged, version string, paths []string) error {
	tag, err := named(tagged, version)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return errors.New("no binary is given")
	}
	var binaries []*binary
	for _, path := range paths {
		b, err := readBinary(path, version)
		if err != nil {
			return err
		}
		binaries = append(binaries, b)
	}
	images, err := imagesOf(ctx, binaries)
	if err != nil {
		return err
	}
	for _, b := range binaries {
		if err := os.WriteFile(b.path+".cdx.json", images[b.platform().String()].sbom, 0o644); err != nil {
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

func imagesOf(ctx context.Context, binaries []*binary) (map[string]platformImage, error) {
	images := make(map[string]platformImage)
	for _, b := range binaries {
		image, err := b.image(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.path, err)
		}
		platform := b.platform().String()
		if _, twice := images[platform]; twice {
			return nil, fmt.Errorf("%s: there are two binaries for %s", b.path, platform)
		}
		images[platform] = image
	}
	return images, nil
}

// named returns the image's name and tag. The default tag is the version.
func named(image, version string) (name.Tag, error) {
	tag, err := name.NewTag(image, name.WithDefaultTag(cmp.Or(version, "dev")))
	if err == nil && !strings.HasSuffix(image, ":"+tag.TagStr()) {
		tag, err = name.NewTag(image + ":" + tag.TagStr()) // keep the name as the user wrote it for docker
	}
	if err != nil {
		return tag, fmt.Errorf("name of the image: %w", err)
	}
	return tag, nil
}
