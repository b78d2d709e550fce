package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestIndexRules: what TestIndex takes for a proof, and what it complains of.
func TestIndexRules(t *testing.T) {
	const rows = "| A-01 | one | |\n| A-02 | two | |\n| B-01 | other | |\n"
	const tests = `package p

// TestDocumented is for A-01.
func TestDocumented(t *testing.T) {}

func TestNamed(t *testing.T) {
	// A-01 in a comment, and that of another group, Z-01
	t.Run("A-02 two, not XA-02", nil)
}

// NotATest is A-01.
func NotATest() { println("B-01") }

var faults = []fault{{name: "gone", proves: "B-01"}, {proves: "A-02"}, {name: "A-01"}}
`
	for _, c := range []struct {
		name, rows, tests string
		wrong             []string
	}{
		{"all is well", rows, tests, nil},
		{"an ID without a row", "| A-01 | one | |\n| B-01 | other | |\n", tests,
			[]string{"p.TestNamed proves A-02, which has no row", "group A has 1 rows"}},
		{"a row without a proof", rows, strings.ReplaceAll(tests, `proves: "B-01"`, ""), []string{"nothing proves B-01"}},
		{"too many rows", rows + "| A-03 | three | |\n", tests + "func TestThree(t *testing.T) { println(`A-03`) }\n", []string{"group A has 3 rows"}},
		{"too few rows", "| A-01 | one | |\n| A-02 | two | |\n", tests, []string{"there are 1 groups of behaviours, not 2: [A]"}},
		{"a gap", "| A-01 | one | |\n| A-03 | two | |\n| B-01 | other | |\n", strings.ReplaceAll(tests, "A-02", "A-03"), []string{"row A-03 is number 2 of its group"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newIndex(c.rows)
			must(t, x.addFile("p", c.tests))
			x.checkRows(map[string]int{"A": 2}, map[string]int{"B": 1})
			if !slices.EqualFunc(x.wrong, c.wrong, strings.HasPrefix) {
				t.Errorf("complains of %q, not of %q", x.wrong, c.wrong)
			}
			want := map[string][]string{"A-01": {"`p.TestDocumented`"}, "A-02": {"`p.TestNamed`"}, "B-01": {"`p.gone`"}}
			if c.wrong == nil && !maps.EqualFunc(x.proofs, want, slices.Equal) {
				t.Errorf("proofs are %q, not %q", x.proofs, want)
			}
		})
	}
}
