package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"isthmus/e2e/harness"
)

// ours reports whether a family is the gateway's own, not one about Go, the process or the page itself.
func ours(name string) bool {
	return !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") && !strings.HasPrefix(name, "promhttp_")
}

// row is a line of a table in docs/metrics.md: names, type and labels, and two columns of words.
var row = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+(?:`, `[a-z0-9_]+)*)` \\| ([a-z]+) \\| ([a-z_, ]*) ?\\| .+ \\| .+ \\|$")

// documented: docs/metrics.md and the gateway's /metrics name the same families, with the same types and labels. All of
// them have series, and histograms have observations.
func (o *observed) documented(t *testing.T) {
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := row.FindAllStringSubmatch(string(text), -1)
	if n := strings.Count(string(text), "\n| `"); n != len(rows) {
		t.Fatalf("%d rows of docs/metrics.md can be read, %d there are", len(rows), n)
	}
	await(t, "/metrics is as documented", func() error {
		return undocumented(rows, o.families(t, o.gateways[0]))
	})
	lint(t, o.families(t, o.gateways[0]))
	await(t, "histograms have observations", func() error {
		return unobserved(o.families(t, o.gateways[0]), o.families(t, o.gateways[1]))
	})
}

// undocumented names the families that are not as in the table's rows, and those that no row names.
func undocumented(rows [][]string, families map[string]*dto.MetricFamily) error {
	lines := make(map[string]string)
	for name, f := range families {
		if ours(name) {
			lines[name] = fmt.Sprint(strings.ToLower(f.GetType().String()), " ", labelsOf(f))
		}
	}
	var errs []error
	for _, r := range rows {
		labels := []string{}
		if list := strings.TrimSpace(r[3]); list != "" {
			labels = strings.Split(list, ", ")
		}
		slices.Sort(labels)
		for _, name := range strings.Split(r[1], "`, `") {
			if want := fmt.Sprint(r[2], " ", labels); lines[name] != want {
				errs = append(errs, fmt.Errorf("%s is documented as %s, and is %q", name, want, lines[name]))
			}
			delete(lines, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		errs = append(errs, fmt.Errorf("%s, %s, is not documented", name, lines[name]))
	}
	return errors.Join(errs...)
}

// unobserved names the histograms that have no observations at either gateway: the first writes EndpointSlices, the
// second reads core Endpoints.
func unobserved(a, b map[string]*dto.MetricFamily) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name].GetType() == dto.MetricType_HISTOGRAM && ours(name) && !observations(a[name]) && !observations(b[name]) {
			errs = append(errs, fmt.Errorf("%s has no observations", name))
		}
	}
	return errors.Join(errs...)
}

func observations(f *dto.MetricFamily) bool {
	return slices.ContainsFunc(f.GetMetric(), func(m *dto.Metric) bool { return m.GetHistogram().GetSampleCount() > 0 })
}

// families returns what a gateway exports.
func (o *observed) families(t *testing.T, g *harness.Replica) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(o.metrics(t, g)))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// labelsOf returns the labels that a family's series have, sorted.
func labelsOf(f *dto.MetricFamily) []string {
	names := map[string]bool{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			names[l.GetName()] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// unclean are the names that promlint objects to and that are as they are because Linkerd's destination controller has
// them: counters without _total.
var unclean = []string{
	"endpoint_profile_updates_queue_overflow", "endpoint_updates_queue_overflow", "endpoints_updates",
	"profile_updates", "profile_updates_queue_overflow", "workload_updates",
}

// lint: promlint objects to those names and no others.
func lint(t *testing.T, families map[string]*dto.MetricFamily) {
	problems, err := promlint.NewWithMetricFamilies(slices.Collect(maps.Values(families))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range problems {
		if !slices.Contains(unclean, p.Metric) && ours(p.Metric) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
		found = append(found, p.Metric)
	}
	for _, name := range unclean {
		if !slices.Contains(found, name) {
			t.Errorf("promlint has nothing against %s", name)
		}
	}
}
