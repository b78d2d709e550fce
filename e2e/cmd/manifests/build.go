package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// folder describes a directory of manifests that can be printed.
type folder struct {
	image     bool   // it contains an image
	namespace bool   // its namespace can be changed
	linkerd   bool   // it is a component that modifies Linkerd's manifest
	alerts    bool   // it contains the PrometheusRule
	home      string // default namespace, if there are cluster-scoped names
}

var folders = map[string]folder{
	"install":    {image: true, namespace: true, home: "linkerd"},
	"linkerd":    {image: true, linkerd: true},
	"link":       {namespace: true, home: "linkerd-multicluster"},
	"monitoring": {namespace: true, alerts: true},
	"dashboards": {namespace: true},
}

var variables = []string{"FOLDER", "WITH", "IMAGE", "VERSION", "NAMESPACE", "LINKERD", "RUNBOOKS"}

// build returns the objects from a directory of manifests as YAML. The arguments have the form
// NAME=VALUE.
func build(manifests fs.FS, args []string) ([]byte, error) {
	v, err := parse(args)
	if err != nil {
		return nil, err
	}
	name := v["FOLDER"]
	f, ok := folders[name]
	if !ok {
		return nil, fmt.Errorf(
			"FOLDER=%s: there is no such folder: choose install, linkerd, link, monitoring or dashboards",
			name,
		)
	}
	if err := f.check(v); err != nil {
		return nil, err
	}
	k, err := f.overlay(manifests, v)
	if err != nil {
		return nil, err
	}
	// The file system in memory ensures that build writes no files, and that a kustomization only
	// reads files in manifests.
	disk := filesys.MakeFsInMemory()
	if err := copyAll(disk, manifests); err != nil {
		return nil, err
	}
	if v["RUNBOOKS"] != "" {
		if err := addRunbooks(disk, v["RUNBOOKS"]); err != nil {
			return nil, err
		}
	}
	if f.linkerd {
		text, err := os.ReadFile(v["LINKERD"])
		if err != nil {
			return nil, fmt.Errorf("LINKERD=%s: %w", v["LINKERD"], err)
		}
		if err := disk.WriteFile("/linkerd.yaml", text); err != nil {
			return nil, err
		}
	}
	return run(disk, k, v)
}

func parse(args []string) (map[string]string, error) {
	v := make(map[string]string)
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || !slices.Contains(variables, name) {
			return nil, fmt.Errorf("%q: give NAME=VALUE, of %s", arg, strings.Join(variables, ", "))
		}
		v[name] = strings.TrimSpace(value)
	}
	if v["FOLDER"] == "" {
		v["FOLDER"] = "install"
	}
	return v, nil
}

// check rejects variables without an effect, and invalid namespaces.
func (f folder) check(v map[string]string) error {
	for _, name := range []string{"IMAGE", "VERSION"} {
		if v[name] != "" && !f.image {
			return fmt.Errorf("%s=%s: FOLDER=%s has no image: leave %s out", name, v[name], v["FOLDER"], name)
		}
	}
	namespace := v["NAMESPACE"]
	if namespace != "" && !f.namespace {
		return fmt.Errorf(
			"NAMESPACE=%s: FOLDER=%s leaves objects where LINKERD has them: leave NAMESPACE out",
			namespace,
			v["FOLDER"],
		)
	}
	if wrong := validation.IsDNS1123Label(namespace); namespace != "" && len(wrong) > 0 {
		return fmt.Errorf("NAMESPACE=%s can't be the name of a namespace: %s", namespace, strings.Join(wrong, "; "))
	}
	if f.linkerd && v["LINKERD"] == "" {
		return fmt.Errorf(
			"FOLDER=%s changes Linkerd's own manifest: give a file with it, as helm template writes it: "+
				"LINKERD=linkerd.yaml",
			v["FOLDER"],
		)
	}
	if !f.linkerd && v["LINKERD"] != "" {
		return fmt.Errorf("LINKERD=%s: only FOLDER=linkerd reads it: leave it out", v["LINKERD"])
	}
	runbooks := v["RUNBOOKS"]
	if runbooks == "" {
		return nil
	}
	if !f.alerts {
		return fmt.Errorf("RUNBOOKS=%s: only FOLDER=monitoring has alerts: leave it out", runbooks)
	}
	return checkRunbooks(runbooks)
}

func copyAll(to filesys.FileSystem, manifests fs.FS) error {
	return fs.WalkDir(manifests, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(manifests, path)
		if err != nil {
			return err
		}
		return to.WriteFile("/manifests/"+path, text)
	})
}

func run(disk filesys.FileSystem, k types.Kustomization, v map[string]string) ([]byte, error) {
	text, err := yaml.Marshal(k)
	if err != nil {
		return nil, err
	}
	if err := disk.WriteFile("/kustomization.yaml", text); err != nil {
		return nil, err
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, "/")
	switch {
	case err != nil && v["LINKERD"] != "":
		return nil, fmt.Errorf(
			"LINKERD=%s can't be changed: is it Linkerd's manifest, with Deployment linkerd-destination and its "+
				"container destination? %w",
			v["LINKERD"],
			err,
		)
	case err != nil:
		return nil, err
	case built.Size() == 0:
		return nil, errors.New("there is no object") // instead of an empty manifest
	}
	return built.AsYaml()
}

// overlay returns the kustomization that a user would write.
func (f folder) overlay(manifests fs.FS, v map[string]string) (types.Kustomization, error) {
	k := types.Kustomization{
		TypeMeta:  types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind},
		Namespace: v["NAMESPACE"],
	}
	if f.linkerd {
		k.Resources, k.Components = []string{"linkerd.yaml"}, []string{"manifests/linkerd"}
	} else {
		k.Resources = []string{"manifests/" + v["FOLDER"]}
	}
	for _, name := range strings.FieldsFunc(v["WITH"], func(r rune) bool { return r == ',' || r == ' ' }) {
		if there := components(manifests, v["FOLDER"]); !slices.Contains(there, name) {
			return k, fmt.Errorf(
				"WITH=%s: FOLDER=%s has no component %q; it has %q",
				v["WITH"],
				v["FOLDER"],
				name,
				there,
			)
		}
		k.Components = append(k.Components, "manifests/"+v["FOLDER"]+"/"+name)
	}
	k.Transformers = f.transformers(manifests, v["NAMESPACE"], append(k.Resources, k.Components...))
	if !f.image {
		return k, nil
	}
	image, version, err := imageOf(v)
	if err != nil {
		return k, err
	}
	k.Images = []types.Image{image}
	// Linkerd's objects have their own labels.
	if version != "" && !f.linkerd && len(validation.IsValidLabelValue(version)) == 0 {
		k.Labels = []types.Label{
			{Pairs: map[string]string{"app.kubernetes.io/version": version}, IncludeTemplates: true},
		}
	}
	return k, nil
}

// transformers returns the transformers that add the namespace to the cluster-scoped names in some
// directories. The default namespace does not change these names.
func (f folder) transformers(manifests fs.FS, namespace string, folders []string) (found []string) {
	if namespace == "" || namespace == f.home {
		return nil
	}
	for _, path := range folders {
		names := path + "/names"
		if _, err := fs.Stat(manifests, strings.TrimPrefix(names, "manifests/")); err == nil {
			found = append(found, names)
		}
	}
	return found
}

func components(manifests fs.FS, folder string) (names []string) {
	paths, _ := fs.Glob(manifests, folder+"/*/kustomization.yaml") // the pattern is valid
	for _, path := range paths {
		if name := strings.Split(path, "/")[1]; name != "names" {
			names = append(names, name)
		}
	}
	return names
}

// imageOf returns the replacement for the image isthmus, and its version if known.
func imageOf(v map[string]string) (image types.Image, version string, err error) {
	given, version := v["IMAGE"], v["VERSION"]
	if given == "" && version == "" {
		given = "isthmus:dev" // the default in the kustomization
	} else if given == "" {
		given = "isthmus"
	}
	ref, err := reference.Parse(given)
	named, ok := ref.(reference.Named)
	if err != nil || !ok {
		return image, "", fmt.Errorf(
			"IMAGE=%s is no image: give it as registry.example.com/isthmus, with :TAG or @sha256:DIGEST or without",
			given,
		)
	}
	image = types.Image{Name: "isthmus", NewName: named.Name()}
	if d, ok := ref.(reference.Digested); ok {
		image.Digest = d.Digest().String()
	}
	if t, ok := ref.(reference.Tagged); ok {
		image.NewTag = t.Tag()
	}
	if version == "" {
		version = image.NewTag
	}
	switch {
	case image.NewTag != "" || image.Digest != "":
		return image, version, nil
	case version == "":
		return image, "", fmt.Errorf(
			"IMAGE=%s has no tag, so that it is not known which one to run: give it, or VERSION=v1",
			given,
		)
	}
	if _, err := reference.WithTag(named, version); err != nil {
		return image, "", fmt.Errorf(
			"VERSION=%s can't be an image's tag: letters, digits, dots, dashes and underscores can, 128 of them",
			version,
		)
	}
	image.NewTag = version
	return image, version, nil
}
