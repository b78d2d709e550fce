package cases

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
)

// jsonDiff shows two JSON values line by line: what only the first has after -, what only the second has after +, and three
// lines around each change.
func jsonDiff(want, got any) string {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: jsonLines(want), B: jsonLines(got), Context: 3})
	if err != nil {
		return err.Error()
	}
	const limit = 8000
	if len(text) > limit {
		return text[:limit] + "…"
	}
	return strings.TrimSuffix(text, "\n")
}

// jsonLines returns a value's indented JSON, with a blank before each line that keeps it from the - or +.
func jsonLines(v any) []string {
	text, err := json.MarshalIndent(v, " ", " ")
	if err != nil {
		text = []byte(err.Error())
	}
	return slices.Collect(strings.Lines(" " + string(text) + "\n"))
}
