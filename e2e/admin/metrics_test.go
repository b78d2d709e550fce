package admin

import (
	"slices"
	"testing"
)

func TestSamples(t *testing.T) {
	const text = `# HELP up Whether.
# TYPE up gauge
up 1
a{b="c"} 2.5e3
a{b="}",c="\"x y\" {"} 3 1700000000000
  spaced   4
nan NaN
`
	got, err := Samples(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []Sample{{"up", 1}, {`a{b="c"}`, 2500}, {`a{b="}",c="\"x y\" {"}`, 3}, {"spaced", 4}}
	if len(got) != 5 || !slices.Equal(got[:4], want) || got[4].Series != "nan" {
		t.Errorf("%v", got)
	}
	for _, bad := range []string{"up", "up x", `a{b="c"}`} {
		if got, err := Samples(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}
