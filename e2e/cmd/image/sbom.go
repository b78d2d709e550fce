package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// component returns a module's entry in an SBOM. Its reference is the package URL.
func component(kind cdx.ComponentType, path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{BOMRef: url, Type: kind, Name: path, Version: version, PackageURL: url}
}

// used returns the linked module: m, or its replacement.
func used(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

func paths(modules []*debug.Module) []string {
	var list []string
	for _, m := range modules {
		list = append(list, m.Path)
	}
	return list
}

// notice matches the names of files that must accompany a program. The license pattern matches
// those that grant the use of the program.
var (
	notice  = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|unlicense|notices?|copyright|patents)([-._].*)?$`)
	license = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|unlicense)([-._].*)?$`)
)

// notices returns the licenses and notices of all packages by file name. It searches the directory
// of each package and all parents up to the root of its module or of Go. It returns an error if a
// module has no license.
func notices(packages []linked, goroot string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	seen := make(map[string]bool) // by directory: whether it or a parent contains a license
	licensed := make(map[string]bool)
	for _, p := range packages {
		module, root := p.module(), goroot
		if !p.Standard {
			root = p.Module.Dir
		}
		for dir := p.Dir; ; dir = filepath.Dir(dir) {
			found, known := seen[dir]
			if !known {
				var err error
				if found, err = readNotices(files, module, root, dir); err != nil {
					return nil, err
				}
				seen[dir] = found
			}
			licensed[module] = licensed[module] || found
			if dir == root {
				break
			}
			if parent := filepath.Dir(dir); parent == dir {
				return nil, fmt.Errorf("package %s: %s is not below %s", p.ImportPath, p.Dir, root)
			}
		}
	}
	for module, found := range licensed {
		if !found {
			return nil, fmt.Errorf("module %s has no license", module)
		}
	}
	return files, nil
}

// readNotices adds the licenses and notices from one directory of a module and reports whether
// there is a license.
func readNotices(files map[string][]byte, module, root, dir string) (found bool, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	below, err := filepath.Rel(root, dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) == ".go" || !notice.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return false, err
		}
		files[path.Join("licenses", module, filepath.ToSlash(below), e.Name())] = text
		found = found || license.MatchString(e.Name())
	}
	return found, nil
}
