package bench

import (
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, x := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{7, 1, 2}, 2}, {[]float64{4, 1, 2, 100}, 3}} {
		given := append([]float64(nil), x.values...)
		if got := median(x.values); got != x.want {
			t.Errorf("median of %v is %v", x.values, got)
		}
		if !reflect.DeepEqual(given, x.values) {
			t.Errorf("%v has become %v", given, x.values)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v", got)
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, x := range []struct {
		values  []float64
		p, want float64
	}{{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100}, {hundred, 0, 1}, {hundred, 99.5, 100}, {[]float64{5}, 99, 5}, {[]float64{1, 2}, 50, 1}} {
		if got := percentile(x.values, x.p); got != x.want {
			t.Errorf("%v %% of %d values are within %v, want %v", x.p, len(x.values), got, x.want)
		}
	}
	if got := percentile(nil, 50); !math.IsNaN(got) {
		t.Errorf("percentile of nothing is %v", got)
	}
}

func TestVerdict(t *testing.T) {
	none := math.NaN()
	for _, x := range []struct {
		row  Row
		want string
	}{
		{Row{Floor: 2, Measured: 3, Figure: Figure{MaxRatio: 1.5}}, "ok"},
		{Row{Floor: 2, Measured: 3.01, Figure: Figure{MaxRatio: 1.5}}, "over"},
		{Row{Floor: none, Measured: 3, Figure: Figure{MaxRatio: 1.5}}, ""},
		{Row{Floor: 2, Measured: none, Figure: Figure{MaxRatio: 1.5}}, ""},
		{Row{Floor: none, Measured: 100, Figure: Figure{Max: 100}}, "ok"},
		{Row{Floor: none, Measured: 101, Figure: Figure{Max: 100}}, "over"},
		{Row{Floor: 1, Measured: 100}, ""},
	} {
		if got := x.row.cells()[5]; got != x.want || x.row.Over() != (x.want == "over") {
			t.Errorf("%+v is %q", x.row, got)
		}
	}
}

var sample = []Result{
	{Trial: "connect", Samples: map[Kind][]Sample{
		Floor:   {{"cpu": 0.3, "all": 200}, {"cpu": 0.2, "all": 300}, {"cpu": 0.25, "all": 250}},
		Gateway: {{"cpu": 0.3, "all": 320}, {"cpu": 0.5, "all": 330}, {"cpu": 0.4, "all": 310}},
	}, Figures: []Figure{{Key: "cpu", Label: "CPU", Unit: "s", MaxRatio: 1.5}, {Key: "all", Label: "the last", Unit: "ms"}}},
	{Trial: "idle", Samples: map[Kind][]Sample{Gateway: {{"rss": 68.84}}}, Figures: []Figure{{Key: "rss", Label: "memory", Unit: "MB", Max: 100}}},
}

func TestReport(t *testing.T) {
	r := NewReport(sample)
	for _, line := range []string{"| connect | CPU | 0.25 s | 0.40 s | 1.60 | ≤ 1.5 × floor | over |\n", "| idle | memory | – | 68.8 MB |  | ≤ 100 MB | ok |\n"} {
		if !strings.Contains(r.Table(), line) {
			t.Errorf("%q is not in\n%s", line, r.Table())
		}
	}
	if err := r.Err(); err == nil || err.Error() != "over target: connect: CPU" {
		t.Error(err)
	}
	r.Results = sample[1:]
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}

// TestReportKept: what is written can be read again, with its targets.
func TestReportKept(t *testing.T) {
	want := NewReport(sample)
	path := filepath.Join(t.TempDir(), "bench.json")
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadReport(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, not %+v", got, err, want)
	}
	if got.Err() == nil {
		t.Error("the target is lost")
	}
}

func TestUpdatePage(t *testing.T) {
	const page = "# Speed\n<!-- figures -->\nold\n<!-- end of figures -->\ntext\n<!-- growth -->\n<!-- end of growth -->\nend\n"
	at := func(trial, of string, size int, costs ...float64) Result {
		r := Result{Trial: trial, Of: of, Size: size, Figures: []Figure{{Key: "cost", Label: trial, Unit: "µs"}}, Samples: map[Kind][]Sample{}}
		for _, cost := range costs {
			r.Samples[Gateway] = append(r.Samples[Gateway], Sample{"cost": cost})
		}
		return r
	}
	machine := Machine{2, "linux", "amd64", "go1.26"}
	r := &Report{machine, sample[:1]}
	growth := &Report{machine, []Result{
		at("one change, by size", "endpoints", 100, 310), at("one change, by size", "endpoints", 1000, 320, 900, 300), at("one change, by size", "endpoints", 10_000, 360.4),
		at("a <subscription>", "Services", 10, 30),
	}}
	updated, err := UpdatePage(page, r, growth)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Speed\n<!-- figures -->\nMeasured with 2 cores, linux/amd64, go1.26:\n\n| figure", "\n| connect | CPU | 0.25 s | 0.40 s | 1.60 | ≤ 1.5 × floor | over |\n",
		"<!-- end of figures -->\ntext\n", "| one change, by size | 100 endpoints: 310 µs | 1000 endpoints: 320 µs | 10000 endpoints: 360 µs |\n| a <subscription> | 10 Services: 30.0 µs |\n", "<!-- end of growth -->\nend\n",
	} {
		if !strings.Contains(updated, want) {
			t.Errorf("%q is not in it:\n%s", want, updated)
		}
	}
	if again, err := UpdatePage(updated, r, growth); err != nil || again != updated {
		t.Errorf("a second update differs: %v\n%s", err, again)
	}
	if _, err := UpdatePage("# Speed\n", r, growth); err == nil {
		t.Error("updated a page that has no place for it")
	}
}
