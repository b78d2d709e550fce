package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
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

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// binary is a program for one platform, and what the Go tool has noted in it.
type binary struct {
	path     string
	data     []byte
	info     *debug.BuildInfo
	settings map[string]string
	version  string
	time     time.Time // of all that is in its image
}

// readBinary reads a program that the Go tool has built. Without a version it has the one that the Go tool has found.
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

// when returns the time that SOURCE_DATE_EPOCH names, or that of the commit that the program was
// built from, or else 1970.
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

// std is what the standard library is called where others are called by their module's path.
const std = "std"

// linked is a package that is linked into a program, as go list prints it.
type linked struct {
	ImportPath string
	Dir        string
	Standard   bool
	Imports    []string
	Module     *struct{ Path, Dir string }
}

// module returns the path of the package's module.
func (p *linked) module() string {
	if p.Standard {
		return std
	}
	return p.Module.Path
}

// packages lists what is linked into the program: the working directory must be the one that it was built in.
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
			return nil, fmt.Errorf("module %s is in the binary, but not in what is here: build the binary anew", m.Path)
		}
	}
	if n := len(b.info.Deps) + 2; len(modules) != n { // the program's own, and the standard library
		return nil, fmt.Errorf(
			"%d modules are in the binary, %d in what is here: build the binary anew",
			n,
			len(modules),
		)
	}
	return all, nil
}

// dependencies returns which modules the packages of each module import.
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

// output returns what a command prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
