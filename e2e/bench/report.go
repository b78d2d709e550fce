package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
)

type Report struct {
	Machine Machine
	Results []Result
}

type Machine struct {
	Cores    int
	OS, Arch string
	Go       string
}

func (m Machine) String() string {
	return fmt.Sprintf("%d cores, %s/%s, %s", m.Cores, m.OS, m.Arch, m.Go)
}

// Result is the result of a trial at one size.
type Result struct {
	Trial   string
	Figures []Figure
	Size    int    `json:",omitempty"` // 0 for a trial without sizes
	Of      string `json:",omitempty"` // unit of the size
	Samples map[Kind][]Sample
}

func (r Result) name() string {
	if r.Of == "" {
		return r.Trial
	}
	return fmt.Sprintf("%s, %d %s", r.Trial, r.Size, r.Of)
}

func NewReport(results []Result) *Report {
	return &Report{
		Machine{Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()},
		results,
	}
}

func (r *Report) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Row is a figure with the medians of its samples.
type Row struct {
	Figure
	Trial           string  // name and size of the trial
	Floor, Measured float64 // NaN if not measured
}

func (r *Report) Rows() (rows []Row) {
	for _, result := range r.Results {
		for _, f := range result.Figures {
			rows = append(rows, Row{
				Figure:   f,
				Trial:    result.name(),
				Floor:    result.median(Floor, f.Key),
				Measured: result.median(Gateway, f.Key),
			})
		}
	}
	return rows
}

func (r Result) median(kind Kind, key string) float64 {
	var values []float64
	for _, s := range r.Samples[kind] {
		if v, ok := s[key]; ok {
			values = append(values, v)
		}
	}
	return median(values)
}

func (r Row) Over() bool {
	return r.MaxRatio > 0 && r.Measured > r.MaxRatio*r.Floor || r.Max > 0 && r.Measured > r.Max
}

// Err returns an error that lists all missed targets.
func (r *Report) Err() error {
	var errs []error
	for _, row := range r.Rows() {
		if row.Over() {
			errs = append(errs, fmt.Errorf("over target: %s: %s", row.Trial, row.Label))
		}
	}
	return errors.Join(errs...)
}

func sorted(values []float64) []float64 {
	slices.Sort(values)
	return values
}

// median returns the median, or NaN without values.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	s := sorted(slices.Clone(values))
	return (s[(n-1)/2] + s[n/2]) / 2
}

// percentile returns the smallest value that is not below p percent of the sorted values, or NaN
// without values.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	i := int(math.Ceil(p/100*float64(len(values)))) - 1
	return values[max(0, i)]
}

// cells returns the table cells of a figure, starting with its label.
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

// number formats a number with about three significant digits.
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

// Table returns the figures as a Markdown table.
func (r *Report) Table() string {
	head := fmt.Sprintf("Measured with %v:\n\n", r.Machine)
	if len(r.Results) > 0 && r.Results[0].Of != "" {
		return head + r.bySize()
	}
	var b strings.Builder
	b.WriteString(head + "| figure | | floor | Isthmus | ratio | target | |\n|---|---|---|---|---|---|---|\n")
	for _, row := range r.Rows() {
		fmt.Fprintf(&b, "| %s | %s |\n", row.Trial, strings.Join(row.cells(), " | "))
	}
	return b.String()
}

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
