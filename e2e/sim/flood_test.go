package sim

import (
	"regexp"
	"testing"
	"time"
)

// TestFlood: another cluster's flood of changes does not hold up a cluster's own. How much longer they take is logged;
// a machine that is shared says little about that.
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
