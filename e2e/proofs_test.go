package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"isthmus/e2e/scenario"
)

// TestProofs checks the tables of testdata/README.md that say what shows what: every row of the peer's tests is there
// once, in order, and every case and Go test that is named exists and is run.
func TestProofs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	peer := proofs(t, string(text), "### The rows of the peer's tests")
	var ids []string
	for _, row := range peer {
		ids = append(ids, row.name)
	}
	var want []string
	for _, group := range []struct {
		letter string
		most   int
	}{
		{"G", 11}, {"D", 6}, {"F", 4}, {"X", 23},
		{"P", 27}, {"T", 3}, {"I", 3}, {"EP", 1}, {"SP", 9}, {"FB", 7}, {"O", 6},
		{"E", 32}, {"M", 5}, {"C", 14}, {"S", 3}, {"W", 3}, {"R", 4}, {"K", 7}, {"U", 4}, {"V", 1},
	} {
		for i := range group.most {
			want = append(want, fmt.Sprintf("%s-%02d", group.letter, i+1))
		}
	}
	if !slices.Equal(ids, want) {
		t.Errorf("the peer's rows are %q, want %q", ids, want)
	}
	rows := peer
	for _, heading := range []string{"### What a Get stream follows", "### What a GetProfile stream follows"} {
		inputs := proofs(t, string(text), heading)
		if len(inputs) < 20 {
			t.Errorf("%s: only %d inputs are named", heading, len(inputs))
		}
		rows = append(rows, inputs...)
	}
	fatal := proofs(t, string(text), "### What must not end the process")
	if len(fatal) < 8 {
		t.Errorf("only %d of what must not end the process are named", len(fatal))
	}
	for _, row := range append(rows, fatal...) {
		for _, by := range row.by {
			if err := exists(by); err != nil {
				t.Errorf("%s: %v", row.name, err)
			}
		}
	}
}

// proof is a row of such a table.
type proof struct {
	name string   // the first column
	by   []string // what stands in backquotes in the last
}

var quoted = regexp.MustCompile("`([^`]+)`")

// proofs reads the table below a heading.
func proofs(t *testing.T, text, heading string) []proof {
	t.Helper()
	_, below, ok := strings.Cut(text, heading+"\n")
	if !ok {
		t.Fatalf("there is no %q", heading)
	}
	below, _, _ = strings.Cut(below, "\n#")
	var rows []proof
	for line := range strings.Lines(below) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.TrimSpace(cells[len(cells)-1]) == "shown by" {
			continue
		}
		row := proof{name: strings.TrimSpace(cells[0])}
		for _, match := range quoted.FindAllStringSubmatch(cells[len(cells)-1], -1) {
			row.by = append(row.by, match[1])
		}
		if len(row.by) == 0 {
			t.Errorf("%s: nothing shows it", row.name)
		}
		rows = append(rows, row)
	}
	return rows
}

// exists returns an error when there is no such case among those that are run, and no such Go test: package.Test or
// package.Test/subtest, the subtest's name being written out in one of the package's tests.
func exists(by string) error {
	folder, test, isTest := strings.Cut(by, ".")
	if !isTest {
		_, err := os.Stat(filepath.Join("testdata", "cases", by+scenario.Extension))
		return err
	}
	function, subtest, hasSubtest := strings.Cut(test, "/")
	var files []string
	for _, below := range []string{".", "local"} {
		found, err := filepath.Glob(filepath.Join("..", below, folder, "*_test.go"))
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		all.Write(text)
	}
	if !strings.Contains(all.String(), "\nfunc "+function+"(t *testing.T)") ||
		hasSubtest && !strings.Contains(all.String(), `"`+subtest+`"`) {
		return fmt.Errorf("there is no test %s", by)
	}
	return nil
}

// TestProofsThatAreNone: what TestProofs goes by tells names that exist from others.
func TestProofsThatAreNone(t *testing.T) {
	for by, want := range map[string]bool{
		"plain-two-pods": true, "e2e.TestProofs": true, "grpcapi/wire.TestGolden/X-04 gateway": true, "e2e/faults.TestFaults/killed": true, "cmd/isthmus.TestGatewayLife": true, "cmd/isthmus.TestNothing": false,
		"plain-three-pods": false, "README.md": false, "e2e.TestNothing": false, "e2e.exists": false, "grpcapi/wire.TestGolden/X-99": false,
	} {
		if err := exists(by); (err == nil) != want {
			t.Errorf("%s: %v", by, err)
		}
	}
	if rows := proofs(t, "### A\n| row | shown by |\n|---|---|\n| a `b` | `c`, `d/e f` |\n\n### B\n| x | `y` |\n", "### A"); len(rows) != 1 ||
		rows[0].name != "a `b`" || !slices.Equal(rows[0].by, []string{"c", "d/e f"}) {
		t.Errorf("read %q", rows)
	}
}
