package main

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func service(version, label string) unstructured.Unstructured {
	return unstructured.Unstructured{Object: map[string]any{
		"kind": "Service", "metadata": map[string]any{
			"name": "web", "resourceVersion": version, "labels": map[string]any{"team": label},
		},
	}}
}

// TestChanged checks that every write is detected, even without a change, and that each changed
// field has a line.
func TestChanged(t *testing.T) {
	const web = "Service web"
	before := objects{web: service("1", "a")}
	for title, test := range map[string]struct {
		now  objects
		want []string
	}{
		"no write": {objects{web: service("1", "a")}, nil},
		"a label": {objects{web: service("2", "b")}, []string{
			web + ` metadata labels team: "b" instead of "a"`,
		}},
		"a write without a change": {objects{web: service("2", "a")}, []string{web + ": written without a change"}},
		"a new object": {objects{web: service("1", "a"), "Service new": {Object: map[string]any{
			"kind": "Service", "metadata": map[string]any{"resourceVersion": "3"},
		}}}, []string{`Service new kind: "Service" is new`, `Service new metadata: {} is new`}},
		"a deleted object": {objects{}, []string{
			web + ` kind: "Service" is gone`,
			web + ` metadata labels team: "a" is gone`,
			web + ` metadata name: "web" is gone`,
		}},
	} {
		if _, lines := before.changed(test.now); !slices.Equal(lines, test.want) {
			t.Errorf("%s: %q, want %q", title, lines, test.want)
		}
	}
}

// TestDifferences checks that lists are compared element by element, and that an empty object
// differs from a missing one.
func TestDifferences(t *testing.T) {
	before, after := make(fields), make(fields)
	hint := map[string]any{"h2": map[string]any{}}
	before.add("web", map[string]any{"hint": hint, "ports": []any{80.0, 81.0}, "same": true})
	after.add("web", map[string]any{"empty": []any{}, "ports": []any{80.0, 82.0, 83.0}, "same": true})
	want := []string{
		"web empty: [] is new", "web hint h2: {} is gone", "web ports[1]: 82 instead of 81", "web ports[2]: 83 is new",
	}
	if got := before.differences(after); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCompareMeshed checks that a run without meshed endpoints is an error.
func TestCompareMeshed(t *testing.T) {
	meshed := map[string]any{
		"protocolHint": map[string]any{"h2": map[string]any{}},
		"tlsIdentity":  map[string]any{"name": "web"},
	}
	for _, missing := range []string{"", "protocolHint", "tlsIdentity"} {
		endpoint := maps.Clone(meshed)
		delete(endpoint, missing)
		told := make(fields)
		told.add("endpoint", endpoint)
		if err := told.compareMeshed(); (err == nil) != (missing == "") {
			t.Errorf("without %q: %v", missing, err)
		}
	}
}
