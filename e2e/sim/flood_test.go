package sim

import (
	"regexp"
	"testing"
	"time"
)

// TestFlood: amid another cluster's flood every change of a cluster arrives, and half of them within a second. How much
// longer they take than without the flood is logged; on a shared machine it means little. TestEventFlood of package faults has
// more events than are handled.
func TestFlood(t *testing.T) {
	f, err := MeasureFlood(t.Context(), Config{Faults: regexp.MustCompile("")}, 30, 500)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(f)
	if f.Churned == 0 || percentile(f.Amid, 50) > time.Second {
		t.Error("there was no flood, or it has held up everything")
	}
}
