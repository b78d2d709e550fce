package client

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// table has a line for each endpoint.
func (s *getState) table() (string, []byte, error) {
	list := s.list()
	if len(list) == 0 {
		return headline(s.exists, list), nil, nil
	}
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  ADDRESS\tCLUSTER\tZONE\tWEIGHT\tHINTS\tPOD\tIDENTITY")
	for _, e := range list {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%d\t%s\t%s\t%s\n", e.Address, printable(e.cluster()), printable(e.zone()), e.Weight,
			printable(e.hints()), printable(e.pod()), printable(e.peer()))
	}
	err := t.Flush()
	return headline(s.exists, list), b.Bytes(), err
}

// headline counts the endpoints, also by cluster.
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
