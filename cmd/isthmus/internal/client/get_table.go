package client

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// table has a line for each endpoint.
func (s *getState) table() (string, []byte, error) {
	list := s.list()
	if len(list) == 0 {
		return headline(s.exists, list), nil, nil
	}
	takenOut := slices.ContainsFunc(list, func(e endpoint) bool { return e.Standing != "" && e.Standing != "in-service" })
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, row(takenOut, "ADDRESS", "CLUSTER", "ZONE", "TIER", "STANDING", "WEIGHT", "HINTS", "POD", "IDENTITY"))
	for _, e := range list {
		fmt.Fprintln(t, row(takenOut, e.Address.String(), printable(e.cluster()), printable(e.zone()), printable(e.Tier), printable(e.Standing),
			strconv.Itoa(int(e.Weight)), printable(e.hints()), printable(e.pod()), printable(e.peer())))
	}
	err := t.Flush()
	return headline(s.exists, list), b.Bytes(), err
}

// standingColumn is that of STANDING.
const standingColumn = 4

// row is a row of the table, with or without standings.
func row(standings bool, cells ...string) string {
	if !standings {
		cells = slices.Delete(cells, standingColumn, standingColumn+1)
	}
	return "  " + strings.Join(cells, "\t")
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
