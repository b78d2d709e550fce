package sim

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSimulation makes a short run with all faults except optional, after which Isthmus backs off for
// half a minute.
func TestSimulation(t *testing.T) {
	report, err := Run(t.Context(), Config{
		Seed:      1,
		Clusters:  5,
		Services:  4,
		Endpoints: 4,
		Clients:   40,
		Steps:     150,
		Pace:      4 * time.Millisecond,
		Rounds:    14,
		Within:    30 * time.Second, Faults: regexp.MustCompile("^[^o]|^old"),
	})
	t.Log(report)
	if failure, ok := errors.AsType[*Failure](err); ok {
		t.Log(failure.Details())
	}
	if err != nil {
		t.Fatal(err)
	}
	if report.Rounds != 14 || report.Writes == 0 || report.Written == 0 || report.Messages == 0 {
		t.Error("the report has no rounds, writes or messages")
	}
	if report.Steps[restarted] == 0 {
		t.Error("no outage with a restart of Isthmus")
	}
}

// TestSameSeed checks that the same seed yields the same steps, and another seed other steps.
func TestSameSeed(t *testing.T) {
	one, again, other := happens(t, 7), happens(t, 7), happens(t, 8)
	for i := range one {
		if i >= len(again) || one[i] != again[i] {
			t.Fatalf("step %d: %q in the first run, %q in the second", i, one[i], again[i:])
		}
	}
	if len(one) != len(again) || slices.Equal(one, other) {
		t.Errorf(
			"%d steps, then %d, and those of another seed are the same: %v",
			len(one),
			len(again),
			slices.Equal(one, other),
		)
	}
}

// TestStoryOfClients checks that the steps of clients name no cluster.
func TestStoryOfClients(t *testing.T) {
	if !slices.ContainsFunc(happens(t, 7), func(text string) bool { return strings.HasPrefix(text, "reconnect: ") }) {
		t.Error("no client reconnects, or the event names a cluster")
	}
}

// happens returns the events of some rounds, without running Isthmus.
func happens(t *testing.T, seed uint64) (texts []string) {
	cfg := Config{Seed: seed, Clusters: 4, Services: 3, Endpoints: 3, Clients: 20, Faults: regexp.MustCompile("")}
	w, err := newWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.fill()
	fillTenant(w)
	fillExports(w)
	s := &simulation{cfg: cfg, world: w, story: newStory(cfg), report: newReport(cfg)}
	if s.clients, err = newClients(w, "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		w.rng = rand.New(rand.NewPCG(seed, uint64(round+1)))
		for range 100 {
			if err := s.step(); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range w.clusters[1:] {
			c.link.settle()
		}
	}
	if err := errors.Join(w.err, s.clients.stop(), w.close()); err != nil {
		t.Fatal(err)
	}
	var all []event
	for _, list := range s.story.lines {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b event) int { return a.number - b.number })
	for _, line := range all {
		texts = append(texts, line.text)
	}
	return texts
}
