package federation

import (
	"maps"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestChunkMap compares a chunkMap with a map, and walks over the chunkMap in chunks while it
// changes. A walk must yield every entry that exists throughout the walk.
func TestChunkMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var mu sync.Mutex
		got, want := newChunkMap[int, int](), make(map[int]int)
		change := func() {
			key := rapid.IntRange(0, 2*chunkSize+100).Draw(t, "key")
			if rapid.Bool().Draw(t, "delete") {
				got.delete(key)
				delete(want, key)
			} else {
				value := rapid.IntRange(1, 9).Draw(t, "value")
				got.set(key, value)
				want[key] = value
			}
		}
		for key := range rapid.IntRange(0, 2*chunkSize+50).Draw(t, "size") {
			got.set(key, -1)
			want[key] = -1
		}
		lasts, seen := maps.Clone(want), make(map[int]bool)
		for key := range got.inChunks(&mu) {
			seen[key] = true
			if len(seen)%97 == 0 {
				change()
				maps.DeleteFunc(lasts, func(key, _ int) bool { _, ok := want[key]; return !ok })
			}
		}
		for key := range lasts {
			if !seen[key] {
				t.Fatalf("the walk missed %d", key)
			}
		}
		if all := maps.Collect(got.all); !maps.Equal(all, want) {
			t.Fatalf("got %v, want %v", all, want)
		}
		if parts := maps.Collect(got.inChunks(&mu)); !maps.Equal(parts, want) {
			t.Fatalf("in parts: got %v, want %v", parts, want)
		}
		for key := range 2*chunkSize + 100 {
			if got.get(key) != want[key] {
				t.Fatalf("%d is %d, want %d", key, got.get(key), want[key])
			}
		}
	})
}
