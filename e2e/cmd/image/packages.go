package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

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
	out, err := output(ctx, "env", "CGO_ENABLED=0", "GOOS="+b.settings["GOOS"], "GOARCH="+b.settings["GOARCH"],
		"go", "list", "-deps", "-json=ImportPath,Dir,Standard,Imports,Module", "-tags="+b.settings["-tags"], b.info.Path)
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
		return nil, fmt.Errorf("%d modules are in the binary, %d in what is here: build the binary anew", n, len(modules))
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
