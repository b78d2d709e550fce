package scenario

import (
	"slices"
	"strings"
	"testing"
)

func TestJSONDiff(t *testing.T) {
	want := parsed(t, `{"a": 1, "b": [1, 2, 3], "c": {"d": "e"}}`)
	got := parsed(t, `{"a": 1, "b": [1, 3], "c": {"d": "f"}}`)
	diff := strings.Split(jsonDiff(want, got), "\n")
	for _, line := range []string{"-   2,", `-   "d": "e"`, `+   "d": "f"`, `   "a": 1,`} {
		if !slices.Contains(diff, line) {
			t.Errorf("no line %q in\n%s", line, strings.Join(diff, "\n"))
		}
	}
	long := make([]any, 100)
	for i := range long {
		long[i] = float64(i)
	}
	other := slices.Clone(long)
	other[50] = "x"
	if lines := strings.Split(jsonDiff(long, other), "\n"); len(lines) > 12 {
		t.Errorf("a long diff has %d lines", len(lines))
	}
	huge := make([]any, 5000)
	if text := jsonDiff(huge, long); len(text) > 10_000 {
		t.Errorf("a huge diff has %d bytes", len(text))
	}
}
