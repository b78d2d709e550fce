package clustertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// MetricLines returns one line for each time series, with its name, labels and value. For
// histograms, the value is 0.
func MetricLines(t testing.TB, g prometheus.Gatherer) (lines []string) {
	t.Helper()
	return render(t, g, func(*dto.Metric) bool { return true })
}

// CheckMetrics compares the given lines with all time series except histograms.
func CheckMetrics(t testing.TB, g prometheus.Gatherer, want ...string) {
	t.Helper()
	got := render(t, g, func(m *dto.Metric) bool { return m.GetHistogram() == nil })
	if !slices.Equal(got, want) {
		t.Errorf("scraped\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func render(t testing.TB, g prometheus.Gatherer, use func(*dto.Metric) bool) (lines []string) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if !use(m) {
				continue
			}
			line := f.GetName()
			for _, l := range m.GetLabel() {
				line += " " + l.GetName() + "=" + l.GetValue()
			}
			lines = append(lines, fmt.Sprint(line, " ", m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	return lines
}
