package bench

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// WriteTable writes the figures for people.
func WriteTable(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\t\tFLOOR\tGATEWAY\tRATIO\tTARGET\t")
	last := ""
	for _, r := range rows {
		name := r.Trial
		if name == last {
			name = ""
		}
		last = r.Trial
		fmt.Fprintln(t, strings.Join(append([]string{name}, r.cells()...), "\t"))
	}
	return t.Flush()
}

// WriteMarkdown writes the figures for a page.
func WriteMarkdown(w io.Writer, rows []Row) error {
	var b strings.Builder
	b.WriteString("| figure | | floor | gateway | ratio | target | |\n|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		b.WriteString("| " + strings.Join(append([]string{r.Trial}, r.cells()...), " | ") + " |\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cells are a figure's, from its label on.
func (r Row) cells() []string {
	ratio, target := "", ""
	if r.Floor > 0 && !math.IsNaN(r.Measured) {
		ratio = fmt.Sprintf("%.2f", r.Measured/r.Floor)
	}
	switch {
	case r.Ratio > 0:
		target = fmt.Sprintf("≤ %g × floor", r.Ratio)
	case r.Most > 0:
		target = strings.TrimSpace(fmt.Sprintf("≤ %g %s", r.Most, r.Unit))
	}
	return []string{r.Label, r.number(r.Floor), r.number(r.Measured), ratio, target, string(r.Verdict())}
}

// number writes a number of the figure.
func (r Row) number(v float64) string { return number(v, r.Unit) }

// number writes a number with about three digits.
func number(v float64, unit string) string {
	if math.IsNaN(v) {
		return "–"
	}
	digits := 2
	switch a := math.Abs(v); {
	case a >= 100:
		digits = 0
	case a >= 10:
		digits = 1
	}
	return strings.TrimSpace(fmt.Sprintf("%.*f %s", digits, v, unit))
}
