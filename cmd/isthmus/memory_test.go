package main

import (
	"runtime/debug"
	"testing"
)

// TestTuneMemory: a GOGC of the environment wins.
func TestTuneMemory(t *testing.T) {
	const before = 70
	defer debug.SetGCPercent(debug.SetGCPercent(before))
	for env, want := range map[string]int{"": gcPercent, "50": before, "off": before} {
		t.Setenv("GOGC", env)
		debug.SetGCPercent(before)
		tuneMemory()
		if got := debug.SetGCPercent(before); got != want {
			t.Errorf("GOGC=%s: %d, not %d", env, got, want)
		}
	}
}
