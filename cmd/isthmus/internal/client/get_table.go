package client

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"isthmus/internal/adminapi"
	"isthmus/internal/legible"
)

// table has a line for each endpoint.
func (s *getState) table() (string, []byte) {
	list := s.list()
	if len(list) == 0 {
		return headline(s.exists, list), nil
	}
	takenOut := slices.ContainsFunc(list, func(e adminapi.Endpoint) bool { return e.Standing != "" && e.Standing != "in-service" })
	row := func(values ...any) []any {
		if !takenOut {
			values = slices.Delete(values, standingColumn, standingColumn+1)
		}
		return values
	}
	var t cells
	t.row(row("ADDRESS", "CLUSTER", "ZONE", "TIER", "STANDING", "WEIGHT", "HINTS", "POD", "IDENTITY")...)
	for _, e := range list {
		t.row(row(e.Address, clusterOf(&e), zoneOf(&e), e.Tier, e.Standing, e.Weight, hintsOf(&e), podOf(&e), peerOf(&e))...)
	}
	var b bytes.Buffer
	t.write(&b, "  ")
	return headline(s.exists, list), b.Bytes()
}

// standingColumn is that of STANDING, which is left out while all are in service.
const standingColumn = 4

// headline counts the endpoints, also by cluster.
func headline(exists bool, list []adminapi.Endpoint) string {
	switch {
	case !exists:
		return "no endpoints: the service does not exist"
	case len(list) == 0:
		return "no endpoints"
	}
	per := make(map[string]int)
	for _, e := range list {
		per[clusterOf(&e)]++
	}
	var parts []string
	for _, c := range slices.Sorted(maps.Keys(per)) {
		parts = append(parts, fmt.Sprintf("%s %d", c, per[c]))
	}
	return fmt.Sprintf("%s (%s)", legible.Count(len(list), "endpoint", "endpoints"), strings.Join(parts, ", "))
}
