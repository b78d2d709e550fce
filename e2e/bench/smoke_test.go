package bench

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/floor"
	"isthmus/e2e/bench/world"
)

// With this variable set, the test's binary is the floor, or lists a fleet.
const beOther = "TEST_BENCH_OTHER"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(beOther) {
	case "floor":
		err = floor.Serve(os.Args[1], os.Stdin, os.Stdout)
	case "list":
		var n int
		if n, err = fleet.List(context.Background(), os.Args[1]); err == nil {
			fmt.Println(n)
		}
	default:
		goleak.VerifyTestMain(m)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// selfCommand runs the test's binary as another program.
func selfCommand(other string) []string {
	return []string{"/usr/bin/env", beOther + "=" + other, os.Args[0]}
}

// smokeScale is so small that all trials take seconds.
var smokeScale = Scale{
	World: world.Scale{Web: 4, WebPods: 5, App: 10, AppPods: 2}, Streams: 40, Conns: 4,
	Flips: 2, Rate: 5, Rounds: 2, Repeats: 1, Settle: time.Second, Idle: 100 * time.Millisecond,
	Proxies: ProxiesScale{Many: Crowd{12, 4}, Busy: Crowd{5, 8}, Changed: 4, Rate: 20},
	Storm:   StormScale{Proxies: Crowd{12, 4}, Services: 10, Endpoints: 2, Servers: 3, Profiles: 10, Over: 100 * time.Millisecond},
	Cold:    ColdScale{Clusters: 3, Services: 4, Endpoints: 2, Repeats: 1}, ColdLarge: ColdScale{Clusters: 5, Services: 4, Endpoints: 2, Repeats: 1},
	Hot:   HotScale{Proxies: Crowd{6, 5}, Slices: 3, Endpoints: 4, Over: time.Second},
	Spill: SpillScale{Services: 4, Endpoints: 5, Pods: 10, Over: time.Second, After: time.Second, Return: time.Second},
	Many: ManyScale{Linked: 4, Services: 5, Endpoints: 2, Spread: 2, Streams: 40, Conns: 10,
		Rates: Rates{Node: 1, Endpoint: 3, Label: 3}, Over: 2 * time.Second},
	Viewers: ViewersScale{Viewers: 2, ManyScale: ManyScale{Linked: 4, Services: 5, Endpoints: 2, Spread: 2, Streams: 40, Conns: 10,
		Rates: Rates{Endpoint: 3}, Over: 2 * time.Second}},
	Blast: BlastScale{Linked: 3, Services: 20, Rate: 20, Events: 2000, Fits: 200, Budget: "16Mi", Quiet: 1, Flood: 1},
}

// TestSmoke makes all trials, small, with real API servers and the gateway as a process. At this size it means
// nothing whether targets are met.
func TestSmoke(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Floor: selfCommand("floor"), List: selfCommand("list"), Log: t.Logf, Scale: smokeScale}
	lab, err := Open(t.Context(), cfg, Trials())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	}()
	results, err := lab.Run(t.Context(), Trials())
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{"idle": true, "cold start 3 × 5,000": true, "cold start 20 × 10,000": true, "hot service": true,
		"clusters": true, "viewers": true, "blast": true} // the floor is sent nothing that could be compared
	for _, r := range results {
		if r.Absent != "" {
			t.Fatalf("%s: %s", r.Trial, r.Absent)
		}
		if own[r.Trial] {
			continue
		}
		for _, key := range []string{"bytes", "update bytes", "refused"} {
			if floor, gateway := r.Samples[Floor][0][key], r.Samples[Gateway][0][key]; floor != gateway || floor == 0 && key == "bytes" {
				t.Errorf("%s, %s: %v of the floor, %v of the gateway", r.Trial, key, floor, gateway)
			}
		}
	}
	alone := map[string]bool{
		"resident memory, no streams": true,
		"CPU":                         true, "resident memory, settled": true, "peak resident memory, relative to settled": true,
		"resident memory of the killed replica": true, "peak resident memory of the other replica": true, "resident memory of the other replica a minute later, above the killed one's": true,
		"beyond the budget: how much of it is used": true, "the cluster is followed again, after the flood": true,
	}
	for _, row := range Rows(results) {
		if math.IsNaN(row.Measured) || math.IsNaN(row.Floor) != (alone[row.Label] || row.Trial == "hot service" || row.Trial == "clusters" || row.Trial == "viewers") {
			t.Errorf("nothing measured: %+v", row)
		}
	}
}

// TestGrowthSmoke measures growth, small.
func TestGrowthSmoke(t *testing.T) {
	scale := GrowthScale{
		Endpoints: []int{100, 300}, Clusters: []int{1, 3}, Services: []int{10, 20},
		Changes: 4, Streams: 40, Conns: 4, Repeats: 1, Settle: time.Second,
		Crowds: CrowdScale{Services: 10, Endpoints: 2, Streams: []int{480, 960}, Each: 12, Conns: []int{20, 240}, Of: 480},
		Linked: LinkedScale{Clusters: []int{2, 4}, Services: 3, Endpoints: 2, Spread: 2, Rest: 100 * time.Millisecond},
	}
	g, err := MeasureGrowth(t.Context(), Config{Dir: t.TempDir(), Log: t.Logf}, scale, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Lines) != 12 {
		t.Errorf("%d lines", len(g.Lines))
	}
	for _, l := range g.Lines {
		nothing := strings.Contains(l.Title, "CPU at rest") // so short a rest may cost no tick of the clock
		if len(l.Points) != 2 || !nothing && (!(l.Points[0].Cost > 0) || !(l.Points[1].Cost > 0)) {
			t.Errorf("%+v", l)
		}
	}
}

// TestGrowthOfNothing: a pattern that matches no line is an error, before anything is measured.
func TestGrowthOfNothing(t *testing.T) {
	if _, err := MeasureGrowth(t.Context(), Config{}, FullGrowth(), regexp.MustCompile("^no such line$")); err == nil {
		t.Error("no error")
	}
}
