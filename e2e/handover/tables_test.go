package handover

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"isthmus/e2e/program"
)

// before is the environment variable that names a gateway to compare with.
const before = "HANDOVER_BEFORE"

// row is a line of a table.
type row struct {
	gateway string
	flags   flags
	ttl     time.Duration
	lag     time.Duration
	size    int
	absence time.Duration // of a restart

	outcome
}

// TestTables plays cases with many flags and prints what came of them; it checks only that nothing is lost. Without -long it
// plays few, to show that it can.
func TestTables(t *testing.T) {
	w := newWorld(t)
	after, err := program.Isthmus.Path(t.Context())
	must(t, err)
	gateways := map[string]string{"after": after, "before": os.Getenv(before)}
	names := []string{"after"}
	if os.Getenv(before) != "" {
		names = []string{"before", "after"}
	}
	var rolls, restarts []row
	for _, name := range names {
		for _, f := range sweep(name) {
			for _, ttl := range ttls() {
				for _, lag := range lags(f) {
					rolls = append(rolls, row{gateway: name, flags: f, ttl: ttl, lag: lag, size: crowdSize()})
				}
			}
		}
		for _, f := range restartFlags(name) {
			for _, absence := range absences() {
				restarts = append(restarts, row{gateway: name, flags: f, ttl: 30 * time.Second, size: crowdSize(), absence: absence})
			}
		}
	}
	surges, twos := append([]row(nil), rolls...), append([]row(nil), rolls...)
	play(t, "surge", surges, func(t *testing.T, r *row) { r.outcome = w.surge(t, r.setting(gateways)) })
	play(t, "two", twos, func(t *testing.T, r *row) { r.outcome = w.two(t, r.setting(gateways)) })
	play(t, "restart", restarts, func(t *testing.T, r *row) { r.outcome = w.restart(t, r.setting(gateways), r.absence) })
	fmt.Printf("\n### Rolling update with a surge\n\n%s", rollTable(surges))
	fmt.Printf("\n### Rolling update with two replicas\n\n%s", rollTable(twos))
	fmt.Printf("\n### Restart in place\n\n%s", restartTable(restarts))
}

func (r *row) setting(gateways map[string]string) setting {
	return setting{binary: gateways[r.gateway], flags: &r.flags, ttl: r.ttl, lag: r.lag, size: r.size}
}

// sideBySide is how many cases are played at a time: few enough not to slow each other down.
const sideBySide = 10

// play plays one case for each row, some side by side.
func play(t *testing.T, kind string, rows []row, one func(*testing.T, *row)) {
	var places = make(chan struct{}, sideBySide)
	var mu sync.Mutex
	t.Run(kind, func(t *testing.T) {
		for i := range rows {
			t.Run(fmt.Sprintf("%s %v-%v TTL %v lag %v absence %v", rows[i].gateway, rows[i].flags.delay, rows[i].flags.drain, rows[i].ttl, rows[i].lag, rows[i].absence), func(t *testing.T) {
				t.Parallel()
				places <- struct{}{}
				defer func() { <-places }()
				r := rows[i]
				one(t, &r)
				t.Log(r.outcome)
				mu.Lock()
				defer mu.Unlock()
				rows[i] = r
			})
		}
	})
}

func s(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// either returns what goes with the form of the suite that is run.
func either[T any](short, lasting T) T {
	if *long {
		return lasting
	}
	return short
}

func crowdSize() int { return either(20, 100) }

func ttls() []time.Duration { return either([]time.Duration{s(2)}, []time.Duration{s(5), s(30)}) }

// lags are of DNS: several for the default flags, to see what it does.
func lags(f flags) []time.Duration {
	if f == defaults {
		return []time.Duration{0, s(0.5), s(1)}
	}
	return []time.Duration{0}
}

func absences() []time.Duration {
	return either([]time.Duration{0}, []time.Duration{0, s(1), s(2), s(5)})
}

// sweep returns the flags that a gateway rolls with.
func sweep(gateway string) []flags {
	if gateway == "before" {
		return either([]flags{{}}, []flags{{}, {s(5), s(10)}, {s(18), s(8)}})
	}
	return either([]flags{{s(1), s(1)}}, []flags{
		{}, {s(5), s(10)}, {s(7), s(10)}, {s(18), s(8)},
		{s(19), s(10)}, {s(21), s(8)}, {s(23), s(6)}, {s(25), s(4)}, {s(27), s(2)}, {s(29), 0},
		{s(32), s(20)},
	})
}

// restartFlags returns the flags that a gateway is restarted with.
func restartFlags(gateway string) []flags {
	if gateway == "before" {
		return either([]flags{{}}, []flags{{}, {s(5), s(10)}})
	}
	return either([]flags{{s(1), 0}}, []flags{{}, {s(23), s(6)}})
}

// rollTable is Markdown.
func rollTable(rows []row) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| gateway | TTL | DNS lag | `--shutdown-delay` | `--drain` | ended after | a change reaches all within: median | longest | proxy without stream: median | longest | came back to the one that goes | most within 1 s at the other |")
	fmt.Fprintln(&b, "|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, r := range rows {
		if len(r.reach) == 0 || len(r.blind) == 0 {
			continue // the case has failed, or was not played
		}
		fmt.Fprintf(&b, "| %s | %v | %v | %v | %v | %s | %s | %s | %s | %s | %s | %s |\n", r.gateway, r.ttl, r.lag, r.flags.delay, r.flags.drain,
			seconds(r.ended), seconds(median(r.reach)), seconds(last(r.reach)), seconds(median(r.blind)), seconds(last(r.blind)),
			percent(r.back, r.moved), percent(r.burst, r.moved))
	}
	return b.String()
}

// restartTable is Markdown.
func restartTable(rows []row) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| gateway | `--shutdown-delay` | `--drain` | absent for | ended after | from ready until a proxy has a message: median | longest | a change reaches all within: longest |")
	fmt.Fprintln(&b, "|---|---|---|---|---|---|---|---|")
	for _, r := range rows {
		if len(r.follow) == 0 || len(r.reach) == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %v | %v | %v | %s | %s | %s | %s |\n", r.gateway, r.flags.delay, r.flags.drain, r.absence,
			seconds(r.ended), seconds(median(r.follow)), seconds(last(r.follow)), seconds(last(r.reach)))
	}
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func percent(part, whole int) string { return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(whole)) }
