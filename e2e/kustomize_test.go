package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"isthmus/e2e/harness/kube"
)

func build(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := kustomize(dir)
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return objects
}

func kustomize(dir string) ([]*unstructured.Unstructured, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	text, err := built.AsYaml()
	if err != nil {
		return nil, err
	}
	return kube.Parse(string(text))
}

// kustomization contains the fields of a kustomization that the tests use.
type kustomization struct {
	Kind               string           `json:"kind,omitempty"`
	Resources          []string         `json:"resources,omitempty"`
	Components         []string         `json:"components,omitempty"`
	Transformers       []string         `json:"transformers,omitempty"`
	Namespace          string           `json:"namespace,omitempty"`
	Images             []map[string]any `json:"images,omitempty"`
	Patches            []patch          `json:"patches,omitempty"`
	ConfigMapGenerator []struct {
		Files []string `json:"files"`
	} `json:"configMapGenerator,omitempty"`
}

type patch struct {
	Target patchTarget `json:"target,omitzero"`
	Patch  string      `json:"patch,omitempty"`
}

type patchTarget struct {
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
}

// overlay writes a kustomization and some files to a temporary directory and returns the directory.
// Resources, components and transformers are these files, or directories of manifests.
func overlay(t *testing.T, k kustomization, files map[string][]byte) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	for _, list := range [][]string{k.Resources, k.Components, k.Transformers} {
		for i, name := range list {
			if files[name] != nil {
				continue
			}
			if list[i], err = filepath.Rel(dir, manifest(t, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	text, err := yaml.Marshal(k)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), text, 0o644))
	return dir
}

func named(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	i := slices.IndexFunc(
		objects,
		func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name },
	)
	if i < 0 {
		t.Fatalf("no %s %s", kind, name)
	}
	return objects[i]
}

// find returns the object with a kind and a name as a typed object, and fails if it has unknown
// fields.
func find[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(
		named(t, objects, kind, name).Object,
		typed,
		true,
	); err != nil {
		t.Fatalf("%s %s: %v", kind, name, err)
	}
	return typed
}

func apply(t *testing.T, c *kube.Client, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		must(t, c.Apply(t.Context(), o))
	}
}

// TestKustomizations checks that each kustomization in manifests can be built, without network
// access, and uses all files in its directory. A component cannot be built alone, so only its files
// are checked.
func TestKustomizations(t *testing.T) {
	var found []string
	err := filepath.WalkDir(manifest(t, "."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "kustomization.yaml" {
			return err
		}
		dir := filepath.Dir(path)
		found = append(found, strings.TrimPrefix(dir, manifest(t, ".")+"/"))
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var k kustomization
		if err := yaml.Unmarshal(text, &k); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := usesItsFiles(dir, k); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		if k.Kind != "Component" {
			if objects, err := kustomize(dir); err != nil || len(objects) == 0 {
				t.Errorf("%s: %d objects, %v", dir, len(objects), err)
			}
		}
		return nil
	})
	must(t, err)
	if want := []string{
		"dashboards", "install/exports/guard", "install/exports", "install/exports/linkerd",
		"install/exports/linkerd/names", "install/exports/names", "install", "install/mcs-crds", "install/names",
		"install/openshift", "install/podmonitor",
		"install/policy", "k3d/federated", "k3d/shop", "link", "link/names", "linkerd/cache",
		"linkerd", "linkerd/policy", "monitoring",
	}; !slices.Equal(found, want) {
		t.Errorf("kustomizations in %q, want %q, which other tests apply", found, want)
	}
}

// usesItsFiles returns an error unless all files in a kustomization exist, and all YAML and JSON
// files beside it are listed.
func usesItsFiles(dir string, k kustomization) (err error) {
	known := map[string]bool{"kustomization.yaml": true}
	for _, list := range [][]string{k.Resources, k.Components} {
		for _, name := range list {
			known[name] = true
		}
	}
	for _, g := range k.ConfigMapGenerator {
		for _, f := range g.Files {
			_, file, _ := strings.Cut(f, "=")
			known[file] = true
		}
	}
	for name := range known {
		if _, missing := os.Stat(filepath.Join(dir, name)); missing != nil {
			err = errors.Join(err, missing)
		}
	}
	files, failed := os.ReadDir(dir)
	for _, f := range files {
		if ext := filepath.Ext(f.Name()); (ext == ".yaml" || ext == ".json") && !known[f.Name()] {
			err = errors.Join(err, fmt.Errorf("%s is not used", f.Name()))
		}
	}
	return errors.Join(err, failed)
}

func applyManifest(t *testing.T, c *kube.Client, name string, replace ...string) {
	t.Helper()
	text, err := os.ReadFile(manifest(t, name))
	must(t, err)
	for i := 0; i < len(replace); i += 2 {
		if !bytes.Contains(text, []byte(replace[i])) {
			t.Fatalf("%s does not contain %q", name, replace[i])
		}
	}
	must(t, c.ApplyYAML(t.Context(), strings.NewReplacer(replace...).Replace(string(text))))
}

// secretToken waits until a controller has added a token to a Secret, and returns the token.
func secretToken(t *testing.T, c *kube.Client, namespace, name string) (token string) {
	t.Helper()
	await(t, "Secret "+name+" has a token", func() error {
		s, err := c.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && len(s.Data["token"]) == 0 {
			err = fmt.Errorf("the Secret has %d keys", len(s.Data))
		}
		if err == nil {
			token = string(s.Data["token"])
		}
		return err
	})
	return token
}

func gatewayKubeconfig(t *testing.T, c *kube.Client) string {
	t.Helper()
	return accountKubeconfig(t, c, "linkerd", "isthmus")
}

func accountKubeconfig(t *testing.T, c *kube.Client, namespace, account string) string {
	t.Helper()
	token, err := c.Token(t.Context(), namespace, account)
	must(t, err)
	text, err := c.Kubeconfig(c.Server(), clientcmdapi.AuthInfo{Token: token})
	must(t, err)
	return writeKubeconfig(t, text)
}

func writeKubeconfig(t *testing.T, text []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, text, 0o600))
	return path
}
