package isthmus_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link        = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading     = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced      = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	linked      = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestLinks: what the documentation links to in this repository exists, and has the heading that the link names.
func TestLinks(t *testing.T) {
	pages := markdown(t)
	checked := 0
	for page, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			checked++
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if anchor != "" && !slices.Contains(anchors(pages[path]), anchor) {
				t.Errorf("%s links to %s: there is no such heading", page, m[1])
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links of %d pages have been checked", checked, len(pages))
	}
}

// markdown returns all pages without their blocks of code.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	pages := make(map[string]string)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "out"}, path):
			return filepath.SkipDir
		case filepath.Ext(path) == ".md":
			text, err := os.ReadFile(path)
			pages[path] = fenced.ReplaceAllString(string(text), "")
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// anchors returns what a page's headings are called in links, as forges make it.
func anchors(text string) (list []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		title := strings.ToLower(linked.ReplaceAllString(m[1], "$1"))
		list = append(list, strings.ReplaceAll(notInAnchor.ReplaceAllString(title, ""), " ", "-"))
	}
	return list
}
