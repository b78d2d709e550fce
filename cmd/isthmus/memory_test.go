package main

import (
	"runtime/debug"
	"strings"
	"testing"

	"isthmus/clusterstore/budget"
)

// TestClusterLimits: what linked clusters may take leaves as much for all else, unless the
// flag asks for more.
func TestClusterLimits(t *testing.T) {
	for _, tt := range []struct {
		usable, flag int64
		want         budget.Limits
	}{
		{250 << 20, 0, budget.Limits{Cluster: 250 << 18, All: 125 << 20}},
		{250 << 20, 32 << 20, budget.Limits{Cluster: 32 << 20, All: 125 << 20}},
		{250 << 20, 200 << 20, budget.Limits{Cluster: 200 << 20, All: 400 << 20}},
		{12 << 20, 0, budget.Limits{Cluster: minClusterMemory, All: 8 << 20}},
		{64 << 30, 0, budget.Limits{Cluster: mostClusterMemory, All: 32 << 30}},
	} {
		if got := clusterLimits(tt.usable, tt.flag); got != tt.want {
			t.Errorf("%d, %d: %+v, want %+v", tt.usable, tt.flag, got, tt.want)
		}
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(100 << 20))
	if got := usableMemory(); got != 100<<20 {
		t.Errorf("GOMEMLIMIT is 100 MiB, and %d bytes can be used", got)
	}
}

// TestViewLimit: calls and views may take half, unless the flag asks for something else.
func TestViewLimit(t *testing.T) {
	for _, tt := range []struct{ usable, flag, want int64 }{
		{250 << 20, 0, 250 << 19}, {250 << 20, 2 << 20, 2 << 20}, {1 << 20, 0, minViewMemory}, {64 << 30, 0, mostViewMemory},
	} {
		if got := viewLimit(tt.usable, tt.flag); got != int(tt.want) {
			t.Errorf("%d, %d: %d, want %d", tt.usable, tt.flag, got, tt.want)
		}
	}
}

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "64Mi": 64 << 20, "1G": 1e9, "16777216": 16 << 20} {
		if got, err := memory(minClusterMemory)(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "64MB", "-64Mi", "0", "3Mi"} {
		if _, err := memory(minClusterMemory)(text); err == nil || !strings.Contains(err.Error(), "give") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
