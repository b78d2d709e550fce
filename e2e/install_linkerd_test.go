package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

const patchedImage = "registry.example.com/isthmus:v1"

// linkerdValues maps values of Linkerd's chart to their effect on linkerd-destination.
var linkerdValues = map[string]func(*appsv1.Deployment){
	"plain": func(*appsv1.Deployment) {},
	"ha": func(d *appsv1.Deployment) {
		d.Spec.Replicas = new(int32(3))
		destination(d).Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("50Mi")},
			Limits:   corev1.ResourceList{"memory": resource.MustParse("250Mi")},
		}
	},
	"native sidecar": func(d *appsv1.Deployment) {
		spec := &d.Spec.Template.Spec
		proxy := spec.Containers[0]
		proxy.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		spec.InitContainers = append(spec.InitContainers, proxy)
		spec.Containers = spec.Containers[1:]
	},
	"more arguments": func(d *appsv1.Deployment) {
		c := destination(d)
		c.Args = append(c.Args, "-ext-endpoint-zone-weights", "-trace-collector=127.0.0.1:1")
		c.Env = append(c.Env, corev1.EnvVar{Name: "EXTRA", Value: "kept"})
	},
}

// destination returns the container that Isthmus replaces.
func destination(d *appsv1.Deployment) *corev1.Container {
	containers := d.Spec.Template.Spec.Containers
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "destination" })
	return &containers[i]
}

func rendered(t *testing.T, values string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("testdata/linkerd/destination.yaml")
	must(t, err)
	objects, err := kube.Parse(string(text))
	must(t, err)
	d := find[appsv1.Deployment](t, objects, "Deployment", "linkerd-destination")
	linkerdValues[values](d)
	changed, err := kube.Unstructured(d)
	must(t, err)
	return slices.Concat(objects[:len(objects)-1], []*unstructured.Unstructured{changed})
}

// patched returns Linkerd's manifest with the kustomization in manifests/linkerd applied.
func patched(t *testing.T, values string) []*unstructured.Unstructured {
	t.Helper()
	return build(t, overlay(t, kustomization{
		Resources: []string{"linkerd.yaml"}, Components: []string{"linkerd"},
		Images: []map[string]any{{"name": "isthmus", "newName": "registry.example.com/isthmus", "newTag": "v1"}},
	}, map[string][]byte{"linkerd.yaml": manifestOf(t, rendered(t, values))}))
}

func manifestOf(t *testing.T, objects []*unstructured.Unstructured) []byte {
	t.Helper()
	var text bytes.Buffer
	for _, o := range objects {
		document, err := yaml.Marshal(o.Object)
		must(t, err)
		fmt.Fprintf(&text, "---\n%s", document)
	}
	return text.Bytes()
}

func inLinkerd(t *testing.T, values string) *appsv1.Deployment {
	t.Helper()
	return find[appsv1.Deployment](t, patched(t, values), "Deployment", "linkerd-destination")
}

// TestLinkerdPatch checks that only the image of Linkerd's destination container changes, and that
// arguments, environment, ports, probes, limits and mounts stay the same. The kustomize component
// and the post-renderer must return the same result.
func TestLinkerdPatch(t *testing.T) {
	for values := range linkerdValues {
		t.Run(values, func(t *testing.T) {
			want := rendered(t, values)
			d := find[appsv1.Deployment](t, want, "Deployment", "linkerd-destination")
			destination(d).Image = patchedImage
			changed, err := kube.Unstructured(d)
			must(t, err)
			want[len(want)-1] = changed
			sameObjects(t, "kustomize", patched(t, values), want)
			sameObjects(t, "isthmus post-render", postRendered(t, manifestOf(t, rendered(t, values))), want)

			given := rendered(t, values)
			for _, o := range append(given, want...) {
				o.SetNamespace("mesh")
			}
			sameObjects(t, "isthmus post-render in another namespace", postRendered(t, manifestOf(t, given)), want)
		})
	}
}

// sameObjects compares two sets of objects field by field, in any order.
func sameObjects(t *testing.T, what string, got, want []*unstructured.Unstructured) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d objects, want %d", what, len(got), len(want))
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(g *unstructured.Unstructured) bool {
			return g.GetKind() == w.GetKind() && g.GetName() == w.GetName()
		})
		if i < 0 {
			t.Errorf("%s: no %s %s", what, w.GetKind(), w.GetName())
			continue
		}
		for _, d := range differences("", got[i].Object, w.Object) {
			t.Errorf("%s: %s %s: %s", what, w.GetKind(), w.GetName(), d)
		}
	}
}

func differences(path string, got, want any) (list []string) {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for key := range g {
			if _, there := w[key]; !there {
				list = append(list, fmt.Sprintf("%s.%s is new: %v", path, key, g[key]))
			}
		}
		for key := range w {
			list = append(list, differences(path+"."+key, g[key], w[key])...)
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return []string{fmt.Sprintf("%s has %d elements, want %d", path, len(g), len(w))}
		}
		for i := range w {
			list = append(list, differences(fmt.Sprintf("%s[%d]", path, i), g[i], w[i])...)
		}
	default:
		if fmt.Sprint(got) != fmt.Sprint(want) {
			list = append(list, fmt.Sprintf("%s is %v, want %v", path, got, want))
		}
	}
	return list
}

func postRendered(t *testing.T, text []byte) []*unstructured.Unstructured {
	t.Helper()
	path, err := harness.Isthmus.Path(t.Context())
	must(t, err)
	cmd := exec.CommandContext(t.Context(), path, "post-render", "--image", patchedImage)
	cmd.Stdin = bytes.NewReader(text)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("isthmus post-render: %v\n%s", err, complaint.String())
	}
	objects, err := kube.Parse(string(out))
	must(t, err)
	return objects
}
