package follow

import (
	"testing"
	"time"
)

// TestSizeOf: what objects refer to counts, and cycles end.
func TestSizeOf(t *testing.T) {
	type node struct {
		text string
		next *node
		list []string
		any  any
		m    map[string]int64
		at   time.Time
	}
	empty := sizeOf("", node{})
	more := func(n node) int64 { return (sizeOf("", n) - empty) / indexFactor }
	if got := sizeOf("ns/a", node{}) - empty; got != 4 {
		t.Errorf("a key of 4 bytes takes %d", got)
	}
	for what, tt := range map[string]struct {
		node node
		want int64
	}{
		"text":  {node{text: "four"}, 4},
		"list":  {node{list: []string{"a", "bc"}}, 2*16 + 3},
		"any":   {node{any: "abc"}, 16 + 3},
		"map":   {node{m: map[string]int64{"ab": 1}}, 2*24 + 2},
		"bytes": {node{any: []byte("abc")}, 24 + 3},
		"time":  {node{at: time.Now()}, 0},
	} {
		if got := more(tt.node); got != tt.want {
			t.Errorf("%s: %d bytes, want %d", what, got, tt.want)
		}
	}
	cycle := node{text: "x"}
	cycle.next = &cycle
	if more(cycle) <= 0 {
		t.Error("a cycle takes nothing")
	}
	if sizeOf("", nil) != objectSize {
		t.Error("nothing takes more than an object")
	}
}
