package bench

import (
	"math"
	"slices"
)

// Result is what came of a trial.
type Result struct {
	Trial   string
	Absent  string            `json:",omitempty"` // why the measured server could not be tried; empty: it could
	Samples map[Kind][]Sample `json:",omitempty"`
	metrics []Metric
}

// Row is a figure of a result: the medians of its samples.
type Row struct {
	Trial, Label, Unit string
	Floor, Measured    float64 // NaN: not measured
	Ratio, Most        float64 // the targets; 0: none
}

// Rows returns the figures of results.
func Rows(results []Result) (rows []Row) {
	for _, r := range results {
		for _, m := range r.metrics {
			rows = append(rows, Row{
				Trial: r.Trial, Label: m.Label, Unit: m.Unit, Ratio: m.Ratio, Most: m.Most,
				Floor: r.median(Floor, m.Key), Measured: r.median(Gateway, m.Key),
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

// Verdict is whether a figure meets its target.
type Verdict string

const (
	OK       Verdict = "ok"
	Over     Verdict = "over"
	Untested Verdict = "" // there is no target, or nothing was measured
)

// Verdict compares the figure with its target.
func (r Row) Verdict() Verdict {
	switch {
	case math.IsNaN(r.Measured), r.Ratio > 0 && math.IsNaN(r.Floor), r.Ratio == 0 && r.Most == 0:
		return Untested
	case r.Ratio > 0 && r.Measured > r.Ratio*r.Floor, r.Most > 0 && r.Measured > r.Most:
		return Over
	}
	return OK
}

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
