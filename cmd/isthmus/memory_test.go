package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

// TestClusterCap checks the memory cap of a linked cluster: the flag or, without it, the smaller of a quarter of the
// usable memory and 256 MiB.
func TestClusterCap(t *testing.T) {
	for _, tt := range []struct{ usable, flag, want int64 }{
		{250 << 20, 0, 250 << 18},
		{250 << 20, 32 << 20, 32 << 20},
		{250 << 20, 200 << 20, 200 << 20},
		{12 << 20, 0, minClusterMemory},
		{1 << 30, 0, 256 << 20},
		{64 << 30, 0, 256 << 20},
	} {
		if got := clusterCap(tt.usable, tt.flag); got != tt.want {
			t.Errorf("%d, %d: %d, want %d", tt.usable, tt.flag, got, tt.want)
		}
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(100 << 20))
	if got := usableMemory(); got != 100<<20 {
		t.Errorf("GOMEMLIMIT is 100 MiB, and %d bytes can be used", got)
	}
}

// TestStreamLimit: calls may take half of the memory, unless the flag is set.
func TestStreamLimit(t *testing.T) {
	for _, tt := range []struct {
		usable int64
		flag   uint32
		want   int
	}{
		{450 << 20, 0, 16_457}, {250 << 20, 0, 9_142}, {250 << 20, 50_000, 50_000}, {250 << 20, 10, 10}, {1, 0, 1},
	} {
		if got := streamLimit(tt.usable, tt.flag); got != tt.want {
			t.Errorf("%d, %d: %d, want %d", tt.usable, tt.flag, got, tt.want)
		}
	}
}

// TestViewLimit: views may take a quarter of the memory, unless the flag is set.
func TestViewLimit(t *testing.T) {
	for _, tt := range []struct{ usable, flag, want int64 }{
		{250 << 20, 0, 250 << 18},
		{250 << 20, 2 << 20, 2 << 20},
		{1 << 20, 0, minViewMemory},
		{64 << 30, 0, mostViewMemory},
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
