package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"isthmus/e2e/bench/fleet"
)

// If beOther is set, the test binary runs the floor or lists a fleet.
const beOther = "TEST_BENCH_OTHER"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(beOther) {
	case "floor":
		err = ServeFloor(os.Args[1], os.Stdin, os.Stdout)
	case "list":
		var n int
		if n, err = fleet.List(context.Background(), os.Args[1]); err == nil {
			fmt.Println(n)
		}
	default:
		if err = flag.Set("test.parallel", "20"); err == nil {
			goleak.VerifyTestMain(m)
			return
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func selfCommand(other string) []string {
	return []string{"/usr/bin/env", beOther + "=" + other, os.Args[0]}
}

// smokeScale is small enough for all trials to take only seconds.
var smokeScale = Scale{
	Web: ServicesScale{4, 5}, App: ServicesScale{10, 2}, Streams: 40, Conns: 4,
	Flips: 2, Repeats: 1, Settle: time.Second, Idle: 100 * time.Millisecond,
	Proxies: ProxiesScale{Crowd: Crowd{5, 8}, Changed: 4, Rate: 20},
	Most:    MostScale{Few: Crowd{2, 2}, Most: Crowd{4, 2}},
	Cold: ColdScale{
		Clusters:  3,
		Services:  4,
		Endpoints: 2,
		Repeats:   1,
	}, ColdLarge: ColdScale{Clusters: 5, Services: 4, Endpoints: 2, Repeats: 1},
	Hot:   HotScale{Proxies: Crowd{6, 5}, Slices: 3, Endpoints: 4, Over: time.Second},
	Spill: SpillScale{Services: 4, Endpoints: 5, Pods: 10, Over: time.Second, After: time.Second, Return: time.Second},
	Many: ManyScale{Linked: 4, Services: 5, Endpoints: 2, Spread: 2, Streams: 40, Conns: 10,
		Rates: Rates{Node: 1, Endpoint: 3, Label: 3}, Over: 2 * time.Second},
	Viewers: ViewersScale{
		Viewers: 2,
		ManyScale: ManyScale{Linked: 4, Services: 5, Endpoints: 2, Spread: 2, Streams: 40, Conns: 10,
			Rates: Rates{Endpoint: 3}, Over: 2 * time.Second},
	},
	Exports: ExportsScale{
		Exports: 6,
		Changes: 5,
		ManyScale: ManyScale{Linked: 4, Services: 5, Endpoints: 2, Spread: 2, Streams: 40, Conns: 10,
			Rates: Rates{Endpoint: 3}, Over: 2 * time.Second},
	},
	Copies: CopiesScale{Linked: 3, Services: 4, Endpoints: 2},
	Growth: GrowthScale{
		Endpoints: []int{100, 300}, Clusters: []int{1, 3}, Services: []int{10, 20}, Changes: 4, Streams: 40, Conns: 4,
		Crowds: CrowdScale{
			Services:  10,
			Endpoints: 2,
			Streams:   []int{480, 960},
			Each:      12,
			Conns:     []int{20, 240},
			Of:        480,
		},
		Linked: LinkedScale{Clusters: []int{2, 4}, Services: 3, Endpoints: 2, Spread: 2, Rest: 100 * time.Millisecond},
	},
}

// smoke runs small trials in parallel, because they mostly wait. At this size, missed targets do
// not matter.
func smoke(t *testing.T, trials []Trial, check func(*testing.T, []Result)) {
	for _, trial := range trials {
		t.Run(trial.Name, func(t *testing.T) {
			t.Parallel()
			lab := &Lab{
				Dir:   t.TempDir(),
				Floor: selfCommand("floor"),
				List:  selfCommand("list"),
				Log:   t.Logf,
				Scale: smokeScale,
			}
			results, err := lab.Run(t.Context(), []Trial{trial})
			if err != nil {
				t.Fatal(err)
			}
			check(t, results)
		})
	}
}

// TestSmoke runs all trials of make bench. It checks that the floor sends the same messages as
// Isthmus, and that every figure is measured.
func TestSmoke(t *testing.T) {
	alone := map[string]bool{ // figures without a floor in trials that have one
		"CPU": true, "settled resident memory": true, "peak memory relative to settled memory": true,
	}
	smoke(t, Trials(smokeScale, Costs), func(t *testing.T, results []Result) {
		for _, r := range results {
			if r.Samples[Floor] == nil ||
				strings.HasPrefix(r.Trial, "cold start") { // the floor of a cold start does not send messages
				continue
			}
			for _, key := range []string{"bytes", "update bytes"} {
				if floor, gateway := r.Samples[Floor][0][key], r.Samples[Gateway][0][key]; floor != gateway ||
					floor == 0 && key == "bytes" {
					t.Errorf("%s: %v of the floor, %v of the replica", key, floor, gateway)
				}
			}
		}
		for _, row := range NewReport(results).Rows() {
			if math.IsNaN(row.Measured) ||
				math.IsNaN(row.Floor) != (alone[row.Label] || results[0].Samples[Floor] == nil) {
				t.Errorf("nothing measured: %+v", row)
			}
		}
	})
}

func TestGrowthSmoke(t *testing.T) {
	smoke(t, Trials(smokeScale, Growth), func(t *testing.T, results []Result) {
		if len(results) != 2 {
			t.Errorf("%d results, want one for each size", len(results))
		}
		for _, row := range NewReport(results).Rows() {
			nothing := strings.Contains(row.Label, "CPU at rest") // can be zero in such a short time
			if !(row.Measured > 0) && !nothing {
				t.Errorf("nothing measured: %+v", row)
			}
		}
	})
}

// TestCheck checks that an error ends a run at once and that the cleanup functions run in reverse
// order.
func TestCheck(t *testing.T) {
	var ended []int
	wrong, second := errors.New("wrong"), errors.New("can't end")
	r := &run{Lab: &Lab{}}
	err := r.once(t.Context(), func(r *run) {
		r.atEnd(func() error { ended = append(ended, 1); return nil })
		r.atEnd(func() error { ended = append(ended, 2); return second })
		if n := must(7, nil); n != 7 {
			t.Error(n)
		}
		must(0, wrong)
		t.Error("the run continued")
	})
	if !errors.Is(err, wrong) || !errors.Is(err, second) || !slices.Equal(ended, []int{2, 1}) {
		t.Errorf("%v, ended %v", err, ended)
	}
}
