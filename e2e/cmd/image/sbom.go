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

// component is a module in an SBOM. Its package URL is its name there too.
func component(kind cdx.ComponentType, path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{BOMRef: url, Type: kind, Name: path, Version: version, PackageURL: url}
}

// used returns the module that is linked in: m, or the module that replaces m.
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

// notice is the name of a file whose text has to go with a program, licence that of one which grants its use.
var (
	notice  = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|unlicense|notices?|copyright|patents)([-._].*)?$`)
	licence = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|unlicense)([-._].*)?$`)
)

// notices returns the licences and notices of all packages, by file name: those beside a package,
// and in each folder from there to its module's, or to Go's. Each module must have a licence.
func notices(packages []linked, goroot string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	seen := make(map[string]bool) // by folder: whether there is a licence, in it or above
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
			return nil, fmt.Errorf("module %s has no licence", module)
		}
	}
	return files, nil
}

// readNotices adds the licences and notices in one folder of a module, and reports whether there is a licence.
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
		found = found || licence.MatchString(e.Name())
	}
	return found, nil
}
