package bench

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocumentedTrials: each make bench BENCH=REGEX in the documentation makes some trial.
func TestDocumentedTrials(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`BENCH=('[^']+'|[\w-]+)`).FindAllStringSubmatch(string(text), -1) {
			named++
			trial, err := regexp.Compile(strings.Trim(m[1], "'"))
			if err != nil {
				t.Errorf("%s: %v", page, err)
			} else if !slices.ContainsFunc(Trials(), func(x Trial) bool { return trial.MatchString(x.Name) }) {
				t.Errorf("%s names trials %s, and there are none", page, m[1])
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d trials are named", named)
	}
}
