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

func TestReadSamples(t *testing.T) {
	const text = `# HELP up Whether.
# TYPE up gauge
up 1
a{b="c"} 2.5e3
a{b="}",c="\"x y\" {"} 3 1700000000000
  spaced   4
nan NaN
`
	got, err := readSamples(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []sample{{"up", 1}, {`a{b="c"}`, 2500}, {`a{b="}",c="\"x y\" {"}`, 3}, {"spaced", 4}}
	if len(got) != 5 || !slices.Equal(got[:4], want) || got[4].series != "nan" {
		t.Errorf("%v", got)
	}
	for _, bad := range []string{"up", "up x", `a{b="c"}`} {
		if got, err := readSamples(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}
