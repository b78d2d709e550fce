package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// binary is a program for one platform with its build information.
type binary struct {
	path     string
	data     []byte
	info     *debug.BuildInfo
	settings map[string]string
	version  string
	time     time.Time // for all files in the image
}

// readBinary reads a program built by the Go tool. The default version is that from the build
// information.
func readBinary(path, version string) (*binary, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	b := &binary{
		path:     path,
		data:     data,
		info:     info,
		version:  cmp.Or(version, info.Main.Version),
		settings: make(map[string]string),
	}
	for _, s := range info.Settings {
		b.settings[s.Key] = s.Value
	}
	if b.settings["CGO_ENABLED"] != "0" {
		return nil, fmt.Errorf("%s: built with cgo, so that it needs libraries: set CGO_ENABLED=0", path)
	}
	b.time, err = b.when()
	return b, err
}

// when returns the time from SOURCE_DATE_EPOCH, the time of the program's commit, or 1970.
func (b *binary) when() (time.Time, error) {
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		return time.Unix(seconds, 0).UTC(), nil
	}
	if at := b.settings["vcs.time"]; at != "" {
		return time.Parse(time.RFC3339, at)
	}
	return time.Unix(0, 0).UTC(), nil
}

func (b *binary) platform() v1.Platform {
	return v1.Platform{OS: b.settings["GOOS"], Architecture: b.settings["GOARCH"]}
}

// std is used in place of a module path for the standard library.
const std = "std"

// linked is a package that is linked into a program, in the format of go list.
type linked struct {
	ImportPath string
	Dir        string
	Standard   bool
	Imports    []string
	Module     *struct{ Path, Dir string }
}

func (p *linked) module() string {
	if p.Standard {
		return std
	}
	return p.Module.Path
}

// packages lists the packages that are linked into the program. It must run in the program's source
// directory.
func (b *binary) packages(ctx context.Context) ([]linked, error) {
	out, err := output(
		ctx,
		"env",
		"CGO_ENABLED=0",
		"GOOS="+b.settings["GOOS"],
		"GOARCH="+b.settings["GOARCH"],
		"go",
		"list",
		"-deps",
		"-json=ImportPath,Dir,Standard,Imports,Module",
		"-tags="+b.settings["-tags"],
		b.info.Path,
	)
	if err != nil {
		return nil, err
	}
	var all []linked
	modules := make(map[string]bool)
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p linked
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
		modules[p.module()] = true
	}
	for _, m := range b.info.Deps {
		if !modules[m.Path] {
			return nil, fmt.Errorf(
				"module %s is in the binary, but not in the build list: build the binary again", m.Path)
		}
	}
	if n := len(b.info.Deps) + 2; len(modules) != n { // plus the main module and the standard library
		return nil, fmt.Errorf(
			"%d modules are in the binary, %d in the build list: build the binary again",
			n,
			len(modules),
		)
	}
	return all, nil
}

// papers returns a program's SBOM, and the licenses and notices of all linked packages by file
// name.
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

func (b *binary) image(ctx context.Context) (platformImage, error) {
	fail := func(err error) (platformImage, error) { return platformImage{}, err }
	texts, sbom, err := b.papers(ctx)
	if err != nil {
		return fail(err)
	}
	if texts["licenses/"+rootsModule+"/LICENSE"], err = rootsLicense(ctx); err != nil {
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
		b.added(beside, "certificates, licenses and SBOM"),
		b.added(program, "the program"))
	return platformImage{image, b.platform(), sbom}, err
}

func (b *binary) added(layer v1.Layer, what string) mutate.Addendum {
	return mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: b.time}, CreatedBy: "make image", Comment: what},
	}
}

// config returns the image's configuration. The user is the one from manifests/install. Arguments
// come from there or from Linkerd's chart, and without arguments the program prints its help.
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

// sbom returns a list of the program's modules and their dependencies in CycloneDX JSON. It has no
// serial number, because that would differ in each build.
func (b *binary) sbom(dependencies map[string][]string) ([]byte, error) {
	refs := make(map[string]string)
	program := component(cdx.ComponentTypeApplication, b.info.Main.Path, b.version)
	sum := sha256.Sum256(b.data)
	program.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	refs[b.info.Main.Path] = program.BOMRef
	if commit := b.settings["vcs.revision"]; commit != "" {
		program.Properties = &[]cdx.Property{
			{Name: "vcs.revision", Value: commit},
			{Name: "vcs.modified", Value: b.settings["vcs.modified"]},
		}
	}

	libraries := []cdx.Component{component(cdx.ComponentTypeLibrary, std, strings.TrimPrefix(b.info.GoVersion, "go"))}
	refs[std] = libraries[0].BOMRef
	for _, m := range b.info.Deps {
		c := component(cdx.ComponentTypeLibrary, used(m).Path, used(m).Version)
		refs[m.Path] = c.BOMRef
		libraries = append(libraries, c)
	}

	var graph []cdx.Dependency
	for _, module := range slices.Concat([]string{b.info.Main.Path, std}, paths(b.info.Deps)) {
		on := make([]string, 0, len(dependencies[module]))
		for _, d := range dependencies[module] {
			on = append(on, refs[d])
		}
		graph = append(graph, cdx.Dependency{Ref: refs[module], Dependencies: &on})
	}

	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: b.time.Format(time.RFC3339), Component: &program}
	bom.Components, bom.Dependencies = &libraries, &graph
	var text bytes.Buffer
	err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return text.Bytes(), err
}

// dependencies returns the modules that the packages of each module import.
func dependencies(packages []linked) map[string][]string {
	of := make(map[string]string)
	for _, p := range packages {
		of[p.ImportPath] = p.module()
	}
	all := make(map[string][]string)
	for _, p := range packages {
		from := of[p.ImportPath]
		for _, imported := range p.Imports {
			to, known := of[imported]
			if known && to != from && !slices.Contains(all[from], to) {
				all[from] = append(all[from], to)
			}
		}
	}
	for _, list := range all {
		slices.Sort(list)
	}
	return all
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
