package sim

import (
	"regexp"
	"testing"
)

// TestJunkPods: a linked cluster's Pods that no slice names cost 500 bytes each at most. Those of Jobs cost 600: their labels,
// which are kept, have the Job's name and its UID twice, and no other Pod has the same.
func TestJunkPods(t *testing.T) {
	all, err := MeasureJunk(t.Context(), Config{Faults: regexp.MustCompile("")}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range all {
		t.Log(j)
		most := 500.0
		if j.Kind == "Job" {
			most = 600
		}
		if j.Each > most || j.Left > 100 {
			t.Errorf("those of %ss take more than %v, or than 100 when they are gone", j.Kind, most)
		}
	}
}
