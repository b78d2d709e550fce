package main

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/kustomize/api/types"
)

// overlay is the kustomization that a user would write.
func (f folder) overlay(manifests fs.FS, v map[string]string) (types.Kustomization, error) {
	k := types.Kustomization{TypeMeta: types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind}, Namespace: v["NAMESPACE"]}
	if f.linkerd {
		k.Resources, k.Components = []string{"linkerd.yaml"}, []string{"manifests/linkerd"}
	} else {
		k.Resources = []string{"manifests/" + v["FOLDER"]}
	}
	for _, name := range strings.FieldsFunc(v["WITH"], func(r rune) bool { return r == ',' || r == ' ' }) {
		if there := components(manifests, v["FOLDER"]); !slices.Contains(there, name) {
			return k, fmt.Errorf("WITH=%s: FOLDER=%s has no component %q; it has %q", v["WITH"], v["FOLDER"], name, there)
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
	// Linkerd's objects have labels of their own.
	if version != "" && !f.linkerd && len(validation.IsValidLabelValue(version)) == 0 {
		k.Labels = []types.Label{{Pairs: map[string]string{"app.kubernetes.io/version": version}, IncludeTemplates: true}}
	}
	return k, nil
}

// transformers returns the transformers by which cluster-scoped names of some folders carry the namespace.
// In the default namespace these names stay as they are.
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

// components lists the folders of a folder that are components.
func components(manifests fs.FS, folder string) (names []string) {
	paths, _ := fs.Glob(manifests, folder+"/*/kustomization.yaml") // the pattern is right
	for _, path := range paths {
		if name := strings.Split(path, "/")[1]; name != "names" {
			names = append(names, name)
		}
	}
	return names
}

// imageOf returns what is to stand in the place of image isthmus, and its version if it is known.
func imageOf(v map[string]string) (image types.Image, version string, err error) {
	given, version := v["IMAGE"], v["VERSION"]
	if given == "" && version == "" {
		given = "isthmus:dev" // as the kustomization has it
	} else if given == "" {
		given = "isthmus"
	}
	ref, err := reference.Parse(given)
	named, ok := ref.(reference.Named)
	if err != nil || !ok {
		return image, "", fmt.Errorf("IMAGE=%s is no image: give it as registry.example.com/isthmus, with :TAG or @sha256:DIGEST or without", given)
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
		return image, "", fmt.Errorf("IMAGE=%s has no tag, so that it is not known which one to run: give it, or VERSION=v1", given)
	}
	if _, err := reference.WithTag(named, version); err != nil {
		return image, "", fmt.Errorf("VERSION=%s can't be an image's tag: letters, digits, dots, dashes and underscores can, 128 of them", version)
	}
	image.NewTag = version
	return image, version, nil
}
