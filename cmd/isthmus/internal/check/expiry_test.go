package check

import (
	"testing"
	"time"
)

// TestRoughly: a duration is rounded, never cut, and off by a quarter at most.
func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 seconds", 900 * time.Millisecond: "1 second", 113 * time.Second: "113 seconds", 114 * time.Second: "2 minutes", 150 * time.Second: "3 minutes",
		113 * time.Minute: "113 minutes", 2*time.Hour - time.Second: "2 hours", 45 * time.Hour: "45 hours", 48*time.Hour - time.Second: "2 days",
		60*time.Hour + time.Second: "3 days", 7*24*time.Hour - time.Second: "7 days",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
