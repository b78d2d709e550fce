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

// TestRights checks that the permissions of this package equal those of the manifests and of the
// table in docs/operations.md. The table also lists what does not work without each permission.
func TestRights(t *testing.T) {
	docs, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([a-z, ]+) \\| (everywhere|its namespace) \\| (.+) \\|$")
	for _, c := range []struct {
		file, title string
		rights      []Permission
	}{
		{"install/rbac.yaml", "Permissions in the local cluster", LocalPermissions()},
		{"install/exports/rbac.yaml", "", ExportPermissions()},
		{"link/remote-access.yaml", "Permissions in a linked cluster", LinkPermissions()},
	} {
		var checked, rows, documented []string
		for _, r := range c.rights {
			scope := "everywhere"
			if r.InNamespace {
				scope = "its namespace"
			}
			for _, verb := range r.Verbs {
				checked = append(checked, strings.Join([]string{verb, r.String(), scope}, " "))
			}
			rows = append(rows, strings.Join([]string{r.String(), strings.Join(r.Verbs, ", "), scope, r.Lost}, " | "))
			if r.Lost == "" || r.Level == OK {
				t.Errorf("%s: %v: the permission has no impact", c.file, r)
			}
		}
		equal(t, c.file, readManifest(t, "../../../../manifests/"+c.file), checked)
		if c.title == "" {
			continue
		}
		_, section, _ := strings.Cut(string(docs), "\n### "+c.title+"\n")
		section, _, _ = strings.Cut(section, "\n##")
		for _, r := range row.FindAllStringSubmatch(section, -1) {
			documented = append(documented, strings.Join(r[1:], " | "))
		}
		if n := strings.Count(section, "\n| `"); n != len(documented) {
			t.Errorf("%s: %d rows, but only %d can be parsed", c.title, n, len(documented))
		}
		equal(t, c.title, documented, rows)
	}
}

func equal(t *testing.T, where string, got, checked []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(checked)
	if !slices.Equal(got, checked) {
		t.Errorf("%s has\n%s\nwant\n%s", where, strings.Join(got, "\n"), strings.Join(checked, "\n"))
	}
}

// readManifest returns the permissions that a manifest grants, sorted.
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
		scope, ok := map[string]string{"Role": "its namespace", "ClusterRole": "everywhere"}[role.Kind]
		if !ok {
			continue
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						for _, name := range append(rule.ResourceNames, "")[:max(1, len(rule.ResourceNames))] {
							granted[strings.Join([]string{verb,
								Permission{Group: group, Resource: resource, Name: name}.String(), scope}, " ")] = true
						}
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(granted))
}
