package sim

import (
	"regexp"
	"testing"
)

// TestJunkPods: a linked cluster's Pods that no slice names cost 500 bytes each at most, whatever kind of owner they have.
func TestJunkPods(t *testing.T) {
	all, err := MeasureJunk(t.Context(), Config{Faults: regexp.MustCompile("")}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range all {
		t.Log(j)
		if j.Each > 500 || j.Left > 100 {
			t.Errorf("those of %ss take more than 500, or than 100 when they are gone", j.Kind)
		}
	}
}
