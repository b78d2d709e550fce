package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
)

// Report is what has been measured, as it is kept.
type Report struct {
	Machine Machine
	Results []Result
}

// Machine is what was measured on.
type Machine struct {
	Cores    int
	OS, Arch string
	Go       string
}

// String describes the machine.
func (m Machine) String() string {
	return fmt.Sprintf("%d cores, %s/%s, %s", m.Cores, m.OS, m.Arch, m.Go)
}

// Result is what came of a trial at one size.
type Result struct {
	Trial   string
	Figures []Figure
	Size    int    `json:",omitempty"` // 0: the trial has one size
	Of      string `json:",omitempty"` // what the size counts
	Samples map[Kind][]Sample
}

func (r Result) name() string {
	if r.Of == "" {
		return r.Trial
	}
	return fmt.Sprintf("%s, %d %s", r.Trial, r.Size, r.Of)
}

// NewReport returns the report of results of this machine.
func NewReport(results []Result) *Report {
	return &Report{Machine{Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()}, results}
}

// Write keeps the report as JSON.
func (r *Report) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Row is a figure of a result: the medians of its samples.
type Row struct {
	Figure
	Trial           string  // with the size
	Floor, Measured float64 // NaN: not measured
}

// Rows returns the figures of all results.
func (r *Report) Rows() (rows []Row) {
	for _, result := range r.Results {
		for _, f := range result.Figures {
			rows = append(rows, Row{Figure: f, Trial: result.name(), Floor: result.median(Floor, f.Key), Measured: result.median(Gateway, f.Key)})
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

// Over reports whether the figure misses its target.
func (r Row) Over() bool {
	return r.MaxRatio > 0 && r.Measured > r.MaxRatio*r.Floor || r.Max > 0 && r.Measured > r.Max
}

// Err returns which targets were missed.
func (r *Report) Err() error {
	var errs []error
	for _, row := range r.Rows() {
		if row.Over() {
			errs = append(errs, fmt.Errorf("over target: %s: %s", row.Trial, row.Label))
		}
	}
	return errors.Join(errs...)
}

// sorted sorts values, and returns them.
func sorted(values []float64) []float64 {
	slices.Sort(values)
	return values
}

// median returns the value in the middle, or the mean of the two that are; NaN of none.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	s := sorted(slices.Clone(values))
	return (s[(n-1)/2] + s[n/2]) / 2
}

// percentile returns the smallest of sorted values that p percent are not above; NaN of none.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	i := int(math.Ceil(p/100*float64(len(values)))) - 1
	return values[max(0, i)]
}
