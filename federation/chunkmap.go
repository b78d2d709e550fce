package federation

import (
	"iter"
	"math"
	"sync"
)

// chunkSize is the number of entries that inChunks copies each time it holds the lock. Copying a
// chunk takes a few microseconds.
const chunkSize = 500

// chunkMap is a map that can be iterated over without holding its lock the whole time. Holding
// Table.mu while iterating over 50,000 definitions would delay every call to [Table.Changed] by
// more than a millisecond. To measure the delay, run:
//
//	go test -run '^$' -bench ChangedDuringWalks ./federation
//
// Each entry uses about 50 bytes more than an entry of a Go map.
type chunkMap[K comparable, V any] struct {
	at   map[K]int // index in list
	list []chunkEntry[K, V]
}

type chunkEntry[K comparable, V any] struct {
	key   K
	value V
}

func newChunkMap[K comparable, V any]() chunkMap[K, V] {
	return chunkMap[K, V]{at: make(map[K]int)}
}

func (m *chunkMap[K, V]) get(key K) (value V) {
	if i, ok := m.at[key]; ok {
		return m.list[i].value
	}
	return value
}

func (m *chunkMap[K, V]) set(key K, value V) {
	if i, ok := m.at[key]; ok {
		m.list[i].value = value
		return
	}
	m.at[key] = len(m.list)
	m.list = append(m.list, chunkEntry[K, V]{key, value})
}

// delete removes a key, and moves the last entry of the list into the gap.
func (m *chunkMap[K, V]) delete(key K) {
	i, ok := m.at[key]
	if !ok {
		return
	}
	last := len(m.list) - 1
	m.list[i] = m.list[last]
	m.at[m.list[i].key] = i
	m.list[last] = chunkEntry[K, V]{}
	m.list = m.list[:last]
	delete(m.at, key)
}

// The all method iterates over the entries. The caller must hold the lock during the whole
// iteration.
func (m *chunkMap[K, V]) all(yield func(K, V) bool) {
	for i := range m.list {
		if !yield(m.list[i].key, m.list[i].value) {
			return
		}
	}
}

// inChunks iterates over the entries. The map may change during the iteration, because inChunks
// locks mu only to copy each chunk.
//
//   - Every entry that exists throughout the iteration is yielded, possibly twice.
//   - Entries that are set or deleted during the iteration may or may not be yielded.
//
// The iteration runs from the end of the list to its beginning, and entries move only toward the
// beginning, so the iteration does not miss any entry.
func (m *chunkMap[K, V]) inChunks(mu *sync.Mutex) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		var chunk []chunkEntry[K, V]
		for end := math.MaxInt; end > 0; {
			chunk, end = m.copyChunk(mu, chunk[:0], end)
			for i := range chunk {
				if !yield(chunk[i].key, chunk[i].value) {
					return
				}
			}
		}
	}
}

// copyChunk appends up to chunkSize entries that precede the given index. The second result is the
// index of the first copied entry.
func (m *chunkMap[K, V]) copyChunk(mu *sync.Mutex, to []chunkEntry[K, V], end int) ([]chunkEntry[K, V], int) {
	mu.Lock()
	defer mu.Unlock()
	end = min(end, len(m.list))
	begin := max(0, end-chunkSize)
	return append(to, m.list[begin:end]...), begin
}
