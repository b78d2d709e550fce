package bench

import (
	"fmt"
	"math"
	"strings"
)

// cells are a figure's, from its label on.
func (r Row) cells() []string {
	ratio, target, verdict := "", "", ""
	if r.Floor > 0 && !math.IsNaN(r.Measured) {
		ratio = fmt.Sprintf("%.2f", r.Measured/r.Floor)
	}
	switch {
	case r.MaxRatio > 0:
		target = fmt.Sprintf("≤ %g × floor", r.MaxRatio)
	case r.Max > 0:
		target = strings.TrimSpace(fmt.Sprintf("≤ %g %s", r.Max, r.Unit))
	}
	switch {
	case r.Over():
		verdict = "over"
	case target != "" && !math.IsNaN(r.Measured) && (r.MaxRatio == 0 || !math.IsNaN(r.Floor)):
		verdict = "ok"
	}
	return []string{r.Label, number(r.Floor, r.Unit), number(r.Measured, r.Unit), ratio, target, verdict}
}

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

// Table returns the figures as a page has them.
func (r *Report) Table() string {
	head := fmt.Sprintf("Measured with %v:\n\n", r.Machine)
	if len(r.Results) > 0 && r.Results[0].Of != "" {
		return head + r.bySize()
	}
	var b strings.Builder
	b.WriteString(head + "| figure | | floor | gateway | ratio | target | |\n|---|---|---|---|---|---|---|\n")
	for _, row := range r.Rows() {
		fmt.Fprintf(&b, "| %s | %s |\n", row.Trial, strings.Join(row.cells(), " | "))
	}
	return b.String()
}

// bySize returns a table with a line for each figure, and its value at each size.
func (r *Report) bySize() string {
	var b strings.Builder
	b.WriteString("| cost of | at | | |\n|---|---|---|---|\n")
	for i, first := range r.Results {
		if i > 0 && r.Results[i-1].Trial == first.Trial {
			continue
		}
		for _, f := range first.Figures {
			fmt.Fprintf(&b, "| %s |", f.Label)
			for _, at := range r.Results[i:] {
				if at.Trial == first.Trial {
					fmt.Fprintf(&b, " %d %s: %s |", at.Size, at.Of, number(at.median(Gateway, f.Key), f.Unit))
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
