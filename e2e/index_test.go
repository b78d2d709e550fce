package e2e

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"isthmus/e2e/cases"
)

//go:generate go test -run ^TestIndex$ . -update

var update = flag.Bool("update", false, "rewrite generated files")

// TestIndex checks that testdata/README.md lists the cases and Go tests that prove each behavior,
// and that every behavior has a proof. The lists come from the IDs in cases and Go tests. make
// generate writes them.
func TestIndex(t *testing.T) {
	path := filepath.Join("testdata", "README.md")
	text, err := os.ReadFile(path)
	must(t, err)
	index := newIndex(string(text))
	index.addCases(t)
	index.addTests(t)
	index.checkRows(peerGroups, ownGroups)
	for _, wrong := range index.wrong {
		t.Error(wrong)
	}
	if t.Failed() {
		return
	}
	fresh := index.write()
	if *update {
		must(t, os.WriteFile(path, []byte(fresh), 0o644))
	} else if fresh != string(text) {
		t.Error("testdata/README.md is out of date: run make generate")
	}
}

// behaviour matches a table row whose last column is generated: ID, description, proofs.
var behaviour = regexp.MustCompile(`(?m)^\| ([A-Z]+-\d\d) \| (.*) \|[^|\n]*\|$`)

type index struct {
	readme string
	ids    []string            // IDs of behaviors in the order of their rows
	proofs map[string][]string // cases and Go tests, in this order, by behavior
	wrong  []string            // mistakes in behaviors and proofs
}

func newIndex(readme string) *index {
	x := &index{readme: readme, proofs: map[string][]string{}}
	for _, row := range behaviour.FindAllStringSubmatch(readme, -1) {
		x.ids = append(x.ids, row[1])
	}
	return x
}

func (x *index) complain(format string, args ...any) {
	x.wrong = append(x.wrong, fmt.Sprintf(format, args...))
}

func (x *index) prove(id, by string) {
	if !slices.Contains(x.ids, id) {
		x.complain("%s proves %s, which has no row in testdata/README.md", by, id)
	}
	if by = "`" + by + "`"; !slices.Contains(x.proofs[id], by) {
		x.proofs[id] = append(x.proofs[id], by)
	}
}

func (x *index) addCases(t *testing.T) {
	for _, file := range caseFiles(t, "cases") {
		c, err := cases.Load(file)
		must(t, err)
		for _, id := range c.Proves {
			x.prove(id, c.Name)
		}
	}
}

func (x *index) addTests(t *testing.T) {
	must(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel("..", filepath.Dir(path))
		return errors.Join(err, x.addFile(filepath.ToSlash(folder), string(text)))
	}))
}

var anyID = regexp.MustCompile(`\b[A-Z]{1,2}-\d\d\b`)

// addFile finds the tests in a Go file whose doc comments or strings, such as the names of
// subtests, contain IDs of behaviors.
func (x *index) addFile(folder, text string) error {
	groups := map[string]bool{}
	for _, id := range x.ids {
		groups[group(id)] = true
	}
	add := func(by, text string) {
		for _, id := range anyID.FindAllString(text, -1) {
			if groups[group(id)] {
				x.prove(id, folder+"."+by)
			}
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), folder, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
			continue
		}
		add(f.Name.Name, f.Doc.Text())
		ast.Inspect(d, func(n ast.Node) bool {
			if n, ok := n.(*ast.BasicLit); ok && n.Kind == token.STRING {
				add(f.Name.Name, n.Value)
			}
			return true
		})
	}
	return nil
}

func group(id string) string { return id[:strings.Index(id, "-")] }

// The numbers of behaviors per group. Those of the peer's tests are exact, and the others are
// minimums.
var (
	peerGroups = map[string]int{
		"G": 11, "D": 6, "F": 4, "X": 23,
		"P": 27, "T": 3, "I": 3, "EP": 1, "SP": 9, "FB": 7, "O": 6,
		"E": 32, "M": 5, "C": 14, "S": 3, "W": 3, "R": 4, "K": 7, "U": 4, "V": 1,
		"EW": 39,
	}
	ownGroups = map[string]int{
		"LG": 20, "LP": 20, "N": 12, "FF": 5, "PR": 34,
		"CS": 22, "ZR": 8, "PS": 4, "NW": 24, "PP": 5,
	}
)

// checkRows checks that the behaviors of each group are complete, numbered in order, and proven.
func (x *index) checkRows(peer, own map[string]int) {
	count := map[string]int{}
	for _, id := range x.ids {
		g := group(id)
		if count[g]++; id != fmt.Sprintf("%s-%02d", g, count[g]) {
			x.complain("row %s has number %d in its group", id, count[g])
		}
		if len(x.proofs[id]) == 0 {
			x.complain("no case or test proves %s", id)
		}
	}
	for g, n := range count {
		if want, ok := peer[g]; ok && n != want || !ok && n < max(1, own[g]) {
			x.complain("group %s has %d rows", g, n)
		}
	}
	if want := len(peer) + len(own); len(count) != want {
		x.complain("%d groups of behaviors, want %d: %v", len(count), want, slices.Sorted(maps.Keys(count)))
	}
}

func (x *index) write() string {
	return behaviour.ReplaceAllStringFunc(x.readme, func(row string) string {
		cell := behaviour.FindStringSubmatch(row)
		return fmt.Sprintf("| %s | %s | %s |", cell[1], cell[2], strings.Join(x.proofs[cell[1]], ", "))
	})
}
