package sim

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is what a run has come to.
type Report struct {
	Seed     uint64
	Clusters int
	Services int
	Clients  int
	Rounds   int            // checked
	Away     int            // of them with clusters that stayed away
	Steps    map[string]int // how often each thing was done
	Writes   int            // of objects
	Written  int            // Services for exports that were as they should be, in all checks
	Opens    int64          // of streams
	Messages int64          // to clients
	Gap      time.Duration  // the longest time in which the machine did not let the simulator run
	Late     int            // first messages after more than 3 s, in rounds with such gaps
	Worst    time.Duration  // until all clients held what they should
	WorstIn  int            // the round of it
	Lagging  time.Duration  // the same of rounds after faults whose clusters are asked again only within 30 s
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

// settled notes that a round has ended well.
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
	fmt.Fprintf(r.out, "round %d: %d writes and %d messages so far; all as it should be after %v; %d clusters away\n",
		round, r.Writes, r.Messages, took.Round(time.Millisecond), away)
}

// String returns the report in some lines.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d clusters, %d services, %d clients; %d rounds in %v, %d of them with clusters away\n",
		r.Seed, r.Clusters, r.Services, r.Clients, r.Rounds, r.Took.Round(time.Second), r.Away)
	fmt.Fprintf(&b, "%d objects written, %d streams opened, %d messages; %d Services for exports as they should be\n",
		r.Writes, r.Opens, r.Messages, r.Written)
	fmt.Fprintf(
		&b,
		"convergence: median %v, worst %v (round %d); worst after optional resources were refused, or answers did "+
			"not end, %v\n",
		r.Median.Round(time.Millisecond),
		r.Worst.Round(time.Millisecond),
		r.WorstIn,
		r.Lagging.Round(time.Millisecond),
	)
	fmt.Fprintf(
		&b,
		"the simulator was paused for %v at most; first messages that were late in rounds like that: %d\n",
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
