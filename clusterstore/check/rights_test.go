package check

import (
	"errors"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestRightsAreThoseOfManifests: what is checked is what users are asked to grant, each once.
func TestRightsAreThoseOfManifests(t *testing.T) {
	for file, rights := range map[string][]Right{"install/rbac.yaml": LocalRights(), "install/exports/rbac.yaml": ExportRights(), "link/remote-access.yaml": LinkRights()} {
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

// TestRightsAreDocumented: docs/operations.md lists what is checked, and so what manifests grant, with what is lost without it,
// each once.
func TestRightsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([a-z, ]+) \\| (everywhere|its namespace) \\| .+ \\| (.+) \\|$")
	for title, rights := range map[string][]Right{"Rights in its own cluster": LocalRights(), "Rights in a linked cluster": LinkRights()} {
		_, section, found := strings.Cut(string(text), "\n### "+title+"\n")
		if !found {
			t.Errorf("docs/operations.md has no section %q", title)
		}
		section, _, _ = strings.Cut(section, "\n##")
		var documented, checked []string
		for _, r := range row.FindAllStringSubmatch(section, -1) {
			documented = append(documented, strings.Join(r[1:], " | "))
		}
		if n := strings.Count(section, "\n| `"); n != len(documented) {
			t.Errorf("%s: of %d rows %d can be read", title, n, len(documented))
		}
		for _, r := range rights {
			where := "everywhere"
			if r.InNamespace {
				where = "its namespace"
			}
			checked = append(checked, strings.Join([]string{r.String(), strings.Join(r.Verbs, ", "), where, r.Lost}, " | "))
		}
		slices.Sort(documented)
		slices.Sort(checked)
		if !slices.Equal(documented, checked) {
			t.Errorf("%s: documented are\n%s\nchecked are\n%s", title, strings.Join(documented, "\n"), strings.Join(checked, "\n"))
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
