package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// ReadReport reads what Report.Write has written.
func ReadReport(path string) (*Report, error) {
	r, err := readJSON[Report](path)
	if err != nil {
		return nil, err
	}
	metrics := map[string][]Metric{}
	for _, t := range Trials() {
		metrics[t.Name] = t.Metrics
	}
	for i := range r.Results {
		r.Results[i].metrics = metrics[r.Results[i].Trial]
	}
	return r, nil
}

// ReadGrowth reads what Growth.Write has written.
func ReadGrowth(path string) (*Growth, error) { return readJSON[Growth](path) }

func readJSON[T any](path string) (*T, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(text, v); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// String describes the machine.
func (m Machine) String() string {
	return fmt.Sprintf("%d cores, %s/%s, %s", m.Cores, m.OS, m.Arch, m.Go)
}

// UpdatePage puts the figures, and the table of growth, in their places on a page.
func UpdatePage(page string, r *Report, g *Growth) (string, error) {
	var table strings.Builder
	if err := WriteMarkdown(&table, Rows(r.Results)); err != nil {
		return "", err
	}
	page, err := replace(page, "figures", fmt.Sprintf("Measured with %v:\n\n%s", r.Machine, table.String()))
	if err != nil {
		return "", err
	}
	return replace(page, "growth", fmt.Sprintf("Measured with %v:\n\n%s", g.Machine, g.markdown()))
}

func (g *Growth) markdown() string {
	var b strings.Builder
	b.WriteString("| cost of | at | | |\n|---|---|---|---|\n")
	for _, l := range g.Lines {
		fmt.Fprintf(&b, "| %s |", l.Title)
		for _, p := range l.Points {
			fmt.Fprintf(&b, " %d %s: %s |", p.X, l.X, number(p.Cost, l.Unit))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// replace replaces what stands between the two comments of that name.
func replace(page, name, text string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(page, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("the page has no lines %q and %q to put the %s between", begin, end, name)
	}
	return before + begin + text + end + after, nil
}
