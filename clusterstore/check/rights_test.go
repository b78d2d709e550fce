package check

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestRightsAreThoseOfManifests: what is checked is what users are asked to grant, each once.
func TestRightsAreThoseOfManifests(t *testing.T) {
	for file, rights := range map[string][]Right{"install/rbac.yaml": LocalRights(), "link/remote-access.yaml": LinkRights()} {
		granted := readManifest(t, "../../manifests/"+file)
		var checked []string
		for _, r := range rights {
			scope := "everywhere"
			if r.InNamespace {
				scope = "in the namespace"
			}
			for _, verb := range r.Verbs {
				checked = append(checked, strings.Join([]string{verb, r.String(), scope}, " "))
			}
			if r.Lost == "" || r.Level == OK {
				t.Errorf("%s: %v: a right that nobody misses", file, r)
			}
		}
		slices.Sort(checked)
		if !slices.Equal(checked, granted) {
			t.Errorf("%s grants\n%s\nchecked are\n%s", file, strings.Join(granted, "\n"), strings.Join(checked, "\n"))
		}
	}
}

// readManifest returns the rights that a manifest grants, sorted.
func readManifest(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	granted := make(map[string]bool)
	for documents := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		var role rbacv1.Role
		if err := documents.Decode(&role); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		scope, ok := map[string]string{"Role": "in the namespace", "ClusterRole": "everywhere"}[role.Kind]
		if !ok {
			continue
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						for _, name := range append(rule.ResourceNames, "")[:max(1, len(rule.ResourceNames))] {
							granted[strings.Join([]string{verb, Right{Group: group, Resource: resource, Name: name}.String(), scope}, " ")] = true
						}
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(granted))
}
