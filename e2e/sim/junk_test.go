package sim

import (
	"regexp"
	"testing"
)

// TestJunkPods: a linked cluster's Pods that no slice names cost 500 bytes each at most.
func TestJunkPods(t *testing.T) {
	j, err := MeasureJunk(t.Context(), Config{Faults: regexp.MustCompile("")}, 20_000)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(j)
	if j.Each > 500 || j.Left > 100 {
		t.Error("that is more than 500, or than 100 when they are gone")
	}
}
