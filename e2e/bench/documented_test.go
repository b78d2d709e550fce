package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAlone checks that BENCH with the name of a trial runs only that trial.
func TestAlone(t *testing.T) {
	for _, mode := range []Mode{Costs, Growth} {
		for _, one := range Trials(Full(), mode) {
			name, err := regexp.Compile(one.Name)
			if err != nil || strings.ContainsAny(one.Name, "'$") {
				t.Errorf("make does not accept %q as a regular expression: %v", one.Name, err)
				continue
			}
			for _, other := range Trials(Full(), mode) {
				if name.MatchString(other.Name) != (one.Name == other.Name) {
					t.Errorf("BENCH=%q selects trial %q: %v", one.Name, other.Name, name.MatchString(other.Name))
				}
			}
		}
	}
}

// command matches the commands in the documentation that run trials: make growth, or make bench
// with BENCH.
var command = regexp.MustCompile(`make growth|BENCH=('[^']+'|[\w-]+)`)

// TestClaims checks that the section in Trial.Claims contains a command that runs the trial.
func TestClaims(t *testing.T) {
	for _, mode := range []Mode{Costs, Growth} {
		for _, trial := range Trials(Full(), mode) {
			page, heading, _ := strings.Cut(trial.Claims, "#")
			text := section(t, filepath.Join("../../docs", page), heading)
			makes := func(m []string) bool {
				if m[0] == "make growth" {
					return mode == Growth
				}
				chosen := regexp.MustCompile(strings.Trim(m[1], "'"))
				return mode == Costs && chosen.MatchString(trial.Name)
			}
			if !slices.ContainsFunc(command.FindAllStringSubmatch(text, -1), makes) {
				t.Errorf("docs/%s has no command that runs the trial %q", trial.Claims, trial.Name)
			}
		}
	}
}

// section returns the text of a page from a heading to the next. The heading is given in the form
// of a link fragment.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range regexp.MustCompile(`(?m)^#+ `).Split(string(text), -1) {
		title, rest, _ := strings.Cut(part, "\n")
		if strings.ReplaceAll(strings.ToLower(title), " ", "-") == heading {
			return rest
		}
	}
	t.Fatalf("%s has no heading %q", page, heading)
	return ""
}

// TestDocumentedTrials checks that each make bench BENCH=REGEX in the documentation runs a trial.
func TestDocumentedTrials(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, "README.md")
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
			} else if !slices.ContainsFunc(Trials(Full(), Costs), func(x Trial) bool {
				return trial.MatchString(x.Name)
			}) {
				t.Errorf("%s runs trials %s, which do not exist", page, m[1])
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d commands run trials", named)
	}
}

// TestPerformancePage checks that README.md describes all trials of both modes in order. The
// performance page must contain exactly one row for each figure of make bench, with its target.
func TestPerformancePage(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var names, figures []string
	for _, trial := range Trials(Full(), Costs) {
		names = append(names, trial.Name+" | "+claims(trial))
		for _, f := range trial.Figures {
			figures = append(figures, strings.Join([]string{trial.Name, f.Label, Row{Figure: f}.cells()[4]}, " | "))
		}
	}
	var described []string
	for _, trial := range Trials(Full(), Growth) {
		names = append(names, trial.Name+" | "+claims(trial))
	}
	for _, row := range tableRows(t, string(text), "| trial | what is done | guards |\n|---|---|---|\n") {
		described = append(described, row[0]+" | "+row[2])
	}
	if !slices.Equal(described, names) {
		t.Errorf("the page describes the trials\n%q, want\n%q", described, names)
	}
	var measured []string
	for _, row := range tableRows(
		t,
		string(text),
		"| figure | | floor | Isthmus | ratio | target | |\n|---|---|---|---|---|---|---|\n",
	) {
		measured = append(measured, strings.Join([]string{row[0], row[1], row[5]}, " | "))
	}
	for _, f := range slices.Concat(figures, measured) {
		if there, is := count(measured, f), count(figures, f); there != 1 || is != 1 {
			t.Errorf("the page has figure %q %d times, want %d times", f, there, is)
		}
	}
}

// TestGrowthPage checks that the documentation contains exactly the figures and sizes of make
// growth.
func TestGrowthPage(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, trial := range Trials(Full(), Growth) {
		for _, f := range trial.Figures {
			for _, size := range trial.Sizes {
				want = append(want, fmt.Sprintf("%s | %d %s", f.Label, size, trial.Of))
			}
		}
	}
	for _, row := range tableRows(t, string(text), "| cost of | at | | |\n|---|---|---|---|\n") {
		for _, cell := range row[1:] {
			at, _, _ := strings.Cut(cell, ":")
			got = append(got, row[0]+" | "+at)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page has\n%q, want\n%q", got, want)
	}
}

// claims returns the link in README.md to the section that a trial guards.
func claims(t Trial) string {
	page, _, _ := strings.Cut(t.Claims, "#")
	return fmt.Sprintf("[%s](../../docs/%s)", page, t.Claims)
}

func tableRows(t *testing.T, page, head string) (list [][]string) {
	t.Helper()
	_, rest, ok := strings.Cut(page, head)
	if !ok {
		t.Fatalf("the page has no table %q", head)
	}
	for line := range strings.Lines(rest) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !ok {
			break
		}
		cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		list = append(list, cells)
	}
	return list
}

func count(list []string, s string) (n int) {
	for _, x := range list {
		if x == s {
			n++
		}
	}
	return n
}
