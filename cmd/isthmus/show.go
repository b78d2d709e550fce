package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// content is what a screen shows.
type content interface {
	// snapshot is the content as one line of JSON.
	snapshot(at time.Time, authority string) any
	// table is the content for people: a headline, then lines that are indented.
	table() (headline string, lines []byte, err error)
}

// screen shows contents, each that differs from the one before.
type screen struct {
	w         io.Writer
	authority string
	asJSON    bool // one line of JSON a state, instead of a table
	redraw    bool // tables replace each other, as a terminal can
	last      []byte
}

// show prints the content if it says something new.
func (s *screen) show(c content, now time.Time) error {
	text, err := json.Marshal(c.snapshot(time.Time{}, s.authority))
	if err != nil {
		return fmt.Errorf("print the state: %w", err)
	}
	if bytes.Equal(text, s.last) {
		return nil
	}
	s.last = text
	if text, err = s.page(c, now); err != nil {
		return fmt.Errorf("print the state: %w", err)
	}
	if _, err := s.w.Write(text); err != nil {
		return fmt.Errorf("print the state: %w", err)
	}
	return nil
}

func (s *screen) page(c content, now time.Time) ([]byte, error) {
	if s.asJSON {
		text, err := json.Marshal(c.snapshot(now, s.authority))
		return append(text, '\n'), err
	}
	headline, lines, err := c.table()
	text := fmt.Sprintf("%s  %s: %s\n%s", now.Format("15:04:05.000"), plain(s.authority), plain(headline), lines)
	if s.redraw {
		text = "\x1b[H\x1b[2J" + text
	}
	return []byte(text), err
}

// plain is a text that somebody wrote, as one that does no harm to a table.
func plain(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return cmp.Or(s, "-")
}

// setSnapshot is one line of "isthmus get -o json".
type setSnapshot struct {
	Time      time.Time  `json:"time"`
	Authority string     `json:"authority"`
	Exists    bool       `json:"exists"`
	Endpoints []endpoint `json:"endpoints"`
}

func (f *fold) snapshot(at time.Time, authority string) any {
	return setSnapshot{at, authority, f.exists, f.list()}
}

// table has a line for each endpoint.
func (f *fold) table() (string, []byte, error) {
	list := f.list()
	if len(list) == 0 {
		return headline(f.exists, list), nil, nil
	}
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  ADDRESS\tCLUSTER\tZONE\tWEIGHT\tHINTS\tPOD\tIDENTITY")
	for _, e := range list {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%d\t%s\t%s\t%s\n", e.Address, plain(e.cluster()), plain(e.zone()), e.Weight, plain(e.hints()), plain(e.pod()), plain(e.peer()))
	}
	err := t.Flush()
	return headline(f.exists, list), b.Bytes(), err
}

func headline(exists bool, list []endpoint) string {
	switch {
	case !exists:
		return "no endpoints: the service does not exist"
	case len(list) == 0:
		return "no endpoints"
	}
	per := make(map[string]int)
	for _, e := range list {
		per[e.cluster()]++
	}
	var parts []string
	for _, c := range slices.Sorted(maps.Keys(per)) {
		parts = append(parts, fmt.Sprintf("%s %d", c, per[c]))
	}
	if len(list) == 1 {
		return fmt.Sprintf("1 endpoint (%s)", parts[0])
	}
	return fmt.Sprintf("%d endpoints (%s)", len(list), strings.Join(parts, ", "))
}

// cluster is the label target_cluster, which a gateway gives to what linked
// clusters offer unless it is told not to.
func (e endpoint) cluster() string { return cmp.Or(e.Labels["target_cluster"], "local") }

// zone is where the endpoint is, and whether the client is there too.
func (e endpoint) zone() string {
	locality := e.Labels["zone_locality"]
	if zone := e.Labels["zone"]; zone == "" || locality == "" || locality == "unknown" {
		return zone
	}
	return e.Labels["zone"] + " (" + locality + ")"
}

func (e endpoint) hints() string {
	var hints []string
	if e.Protocol != "" {
		hints = append(hints, e.Protocol)
	}
	if e.InboundPort != 0 {
		hints = append(hints, fmt.Sprintf("via:%d", e.InboundPort))
	}
	if e.Authority != "" {
		hints = append(hints, "authority:"+e.Authority)
	}
	return strings.Join(hints, ",")
}

func (e endpoint) pod() string {
	return cmp.Or(e.Labels["pod"], e.Labels["external_workload"])
}

func (e endpoint) peer() string {
	if e.Identity == nil {
		return ""
	}
	return cmp.Or(e.Identity.DNS, e.Identity.URI)
}
