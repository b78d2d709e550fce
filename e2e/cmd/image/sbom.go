package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom lists the modules in the program, and what each takes from which, in CycloneDX's JSON. It has no serial number, which
// would have to be another one each time.
func (b *binary) sbom(dependencies map[string][]string) ([]byte, error) {
	refs := make(map[string]string)
	program := component(cdx.ComponentTypeApplication, b.info.Main.Path, b.version)
	sum := sha256.Sum256(b.data)
	program.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	refs[b.info.Main.Path] = program.BOMRef
	if commit := b.settings["vcs.revision"]; commit != "" {
		program.Properties = &[]cdx.Property{{Name: "vcs.revision", Value: commit}, {Name: "vcs.modified", Value: b.settings["vcs.modified"]}}
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
