package commands

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"isthmus/internal/text"
)

// table has a line for each endpoint.
func (s *getState) table() (string, []byte) {
	if len(s.endpoints) == 0 {
		return s.headline(), nil
	}
	takenOut := false
	var t cells
	t.row("ADDRESS", "CLUSTER", "ZONE", "TIER", "STANDING", "WEIGHT", "HINTS", "POD", "IDENTITY")
	for _, addr := range s.addresses() {
		w := s.endpoints[addr].WeightedAddr
		tier, standing := w.GetMetricLabels()["isthmus_tier"], w.GetMetricLabels()["isthmus_standing"]
		takenOut = takenOut || standing != "" && standing != "in-service"
		t.row(addr, clusterOf(w), zoneOf(w), tier, standing, w.GetWeight(), hintsOf(w), podOf(w), peerOf(w))
	}
	if !takenOut {
		for i, row := range t.rows {
			t.rows[i] = slices.Delete(row, standingColumn, standingColumn+1)
		}
	}
	var b bytes.Buffer
	t.write(&b, "  ")
	return s.headline(), b.Bytes()
}

// standingColumn is that of STANDING, which is left out while all are in service.
const standingColumn = 4

// headline counts the endpoints, also by cluster.
func (s *getState) headline() string {
	switch {
	case !s.exists:
		return "no endpoints: the service does not exist"
	case len(s.endpoints) == 0:
		return "no endpoints"
	}
	per := make(map[string]int)
	for _, e := range s.endpoints {
		per[clusterOf(e.WeightedAddr)]++
	}
	var parts []string
	for _, c := range slices.Sorted(maps.Keys(per)) {
		parts = append(parts, fmt.Sprintf("%s %d", c, per[c]))
	}
	return fmt.Sprintf("%s (%s)", text.Count(len(s.endpoints), "endpoint", "endpoints"), strings.Join(parts, ", "))
}
