package sim

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report summarizes a run.
type Report struct {
	Seed     uint64
	Clusters int
	Services int
	Clients  int
	Rounds   int            // number of rounds that were checked
	Away     int            // rounds in which clusters stayed away
	Steps    map[string]int // how often each step was made
	Writes   int            // writes of objects
	Written  int            // Services for exports that were correct, summed over all checks
	Opens    int64          // opened streams
	Messages int64          // messages to clients
	Gap      time.Duration  // the longest time for which the machine paused the simulator
	Late     int            // first messages after more than 3 s, in rounds with a long Gap
	Worst    time.Duration  // the longest time until all clients held what they should
	WorstIn  int            // the round of Worst
	Lagging  time.Duration  // like Worst, for rounds after faults that make Isthmus back off for long
	Median   time.Duration
	Took     time.Duration

	out   io.Writer
	began time.Time
	times []time.Duration
}

func newReport(cfg Config) Report {
	return Report{Seed: cfg.Seed, Clusters: cfg.Clusters, Services: cfg.Services, Clients: cfg.Clients,
		Steps: map[string]int{}, out: cfg.Out, began: time.Now()}
}

// settled records that a round was successful.
func (r *Report) settled(round int, took time.Duration, w *world, cs *clients) {
	r.Rounds = round
	away := len(away(w))
	if away > 0 {
		r.Away++
	}
	switch {
	case time.Now().Add(-took).Before(w.lagging):
		r.Lagging = max(r.Lagging, took)
	case took > r.Worst:
		r.Worst, r.WorstIn = took, round
	}
	r.times = append(r.times, took)
	slices.Sort(r.times)
	r.Median = r.times[len(r.times)/2]
	r.Written += w.exports.right
	r.Writes, r.Opens, r.Messages = w.writes, cs.opens.Load(), 0
	for _, c := range cs.all {
		r.Messages += c.stream.Status().Messages
	}
	r.Took = time.Since(r.began)
	fmt.Fprintf(r.out, "round %d: %d writes and %d messages so far; converged after %v; %d clusters away\n",
		round, r.Writes, r.Messages, took.Round(time.Millisecond), away)
}

// String returns the report as several lines.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d clusters, %d services, %d clients; %d rounds in %v, %d of them with clusters away\n",
		r.Seed, r.Clusters, r.Services, r.Clients, r.Rounds, r.Took.Round(time.Second), r.Away)
	fmt.Fprintf(&b, "%d objects written, %d streams opened, %d messages; %d correct Services for exports\n",
		r.Writes, r.Opens, r.Messages, r.Written)
	fmt.Fprintf(
		&b,
		"convergence: median %v, worst %v (round %d); worst after optional resources were forbidden, or responses did "+
			"not end, %v\n",
		r.Median.Round(time.Millisecond),
		r.Worst.Round(time.Millisecond),
		r.WorstIn,
		r.Lagging.Round(time.Millisecond),
	)
	fmt.Fprintf(
		&b,
		"the simulator was paused for %v at most; late first messages in such rounds: %d\n",
		r.Gap.Round(time.Millisecond),
		r.Late,
	)
	names := slices.Sorted(maps.Keys(r.Steps))
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, r.Steps[name])
	}
	fmt.Fprintf(&b, "steps: %s\n", strings.Join(names, ", "))
	return b.String()
}
