//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

type row struct {
	name, note   string
	took         time.Duration
	streams      int
	moved        int
	median, most time.Duration // time from the end of a stream to the next message
	short        int           // number of streams that had fewer endpoints than expected
	faults       int           // number of invalid messages
	failed       bool
}

// rowOf computes the row of an event. The clients must have been marked at the start of the event.
func rowOf(name string, n *window, took time.Duration, streams map[string]Report, err error) row {
	r := row{name: name, note: n.note, took: took, streams: len(streams), short: n.short, failed: err != nil}
	var blind []time.Duration
	theirs := 0
	for name, s := range streams {
		for i, o := range s.Openings {
			if o.Lost.Before(n.began) {
				continue
			}
			lost := o.Lost
			if i > 0 && s.Openings[i-1].Addr == n.address && lost.After(n.silent) {
				lost = n.silent
			}
			blind = append(blind, o.First.Sub(lost))
		}
		if wasShort(name, s) {
			if n.linkerds[s.Thinner] {
				theirs++
			} else {
				r.short++
			}
		}
		r.faults += len(s.Faults)
	}
	if theirs > 0 {
		r.note += fmt.Sprintf("; %d short sets by Linkerd's", theirs)
	}
	slices.Sort(blind)
	if r.moved = len(blind); r.moved > 0 {
		r.median, r.most = blind[r.moved/2], blind[r.moved-1]
	}
	return r
}

// wasShort reports whether a stream had too few endpoints since the last mark. Two Pods of each
// cluster always exist.
func wasShort(stream string, s Report) bool {
	stays := 2
	if strings.Contains(stream, "federated") {
		stays = 4
	}
	return strings.Contains(stream, " Get ") && s.Fewest < stays
}

func (r row) cells() string {
	blind := "-\t-"
	if r.moved > 0 {
		blind = fmt.Sprintf("%.1f s\t%.1f s", r.median.Seconds(), r.most.Seconds())
	}
	end := r.note
	if r.failed {
		end = strings.TrimSpace("FAILED " + end)
	}
	return fmt.Sprintf(
		"%s\t%.0f s\t%d of %d\t%s\t%d\t%s",
		r.name,
		r.took.Seconds(),
		r.moved,
		r.streams,
		blind,
		r.short,
		end,
	)
}

func (r row) String() string { return strings.ReplaceAll(r.cells(), "\t", "  ") }

func printTable(rows []row) {
	fmt.Println()
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "event\ttook\tstreams moved\tblind: median\tlongest\tshort sets\t")
	for _, r := range rows {
		fmt.Fprintln(t, r.cells())
	}
	t.Flush()
	fmt.Println()
}
