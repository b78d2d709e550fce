package bench

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, x := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{7, 1, 2}, 2}, {[]float64{4, 1, 2, 100}, 3}} {
		given := slices.Clone(x.values)
		if got := median(x.values); got != x.want || !slices.Equal(x.values, given) {
			t.Errorf("median of %v is %v; the values have become %v", given, got, x.values)
		}
	}
}

func TestPercentile(t *testing.T) {
	for _, x := range []struct{ p, want float64 }{{0, 1}, {25, 1}, {26, 2}, {50, 2}, {99, 4}, {100, 4}} {
		if got := percentile([]float64{1, 2, 3, 4}, x.p); got != x.want {
			t.Errorf("%v %% are within %v, want %v", x.p, got, x.want)
		}
	}
}

// TestErr checks that exactly the figures over their targets are reported.
func TestErr(t *testing.T) {
	report := NewReport([]Result{{Trial: "trial", Figures: []Figure{
		{Key: "a", Label: "ratio met", MaxRatio: 1.5}, {Key: "a", Label: "ratio missed", MaxRatio: 1.4},
		{Key: "a", Label: "limit met", Max: 3}, {Key: "a", Label: "limit missed", Max: 2.9},
		{
			Key:   "b",
			Label: "not measured",
			Max:   1,
		}, {Key: "c", Label: "without a floor", MaxRatio: 1}, {Key: "a", Label: "without a target"},
	}, Samples: map[Kind][]Sample{Floor: {{"a": 2}}, Gateway: {{"a": 3, "c": 3}}}}})
	const want = "over target: trial: ratio missed\nover target: trial: limit missed"
	if err := report.Err(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if rows := report.Rows(); !math.IsNaN(rows[4].Measured) || rows[0].Floor != 2 ||
		!strings.HasPrefix(rows[0].Trial, "trial") {
		t.Errorf("%+v", rows)
	}
}
