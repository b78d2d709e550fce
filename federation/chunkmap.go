package federation

import (
	"iter"
	"math"
	"sync"
)

// chunkSize is the number of entries that a chunkMap copies at a time, while its lock is held.
// Copying a chunk takes a few microseconds.
const chunkSize = 500

// chunkMap is a map whose entries can be copied in chunks. So a walk over all entries does not
// block other users of the lock that guards the map. Without chunks, a walk over 50,000 definitions
// held Table.mu for milliseconds and delayed every [Table.Changed]. To measure the delay, run:
//
//	go test -run '^$' -bench ChangedDuringWalks ./federation
//
// An entry takes about 50 bytes more than in a Go map.
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

// get returns the value of a key, or the zero value if there is none.
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

// delete removes a key. It moves the last entry of the list into the gap.
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

// all iterates over the entries. The caller must hold the lock throughout.
func (m *chunkMap[K, V]) all(yield func(K, V) bool) {
	for i := range m.list {
		if !yield(m.list[i].key, m.list[i].value) {
			return
		}
	}
}

// inChunks iterates over the entries. The caller must not hold mu, which inChunks locks to copy
// each chunk. The map may change during the walk.
//
//   - Every entry that exists throughout the walk is yielded, with a value that it had during the
//     walk.
//   - An entry may be yielded twice.
//   - Entries that are set or deleted during the walk may or may not be yielded.
//
// The walk proceeds from the end of the list to its beginning. delete moves entries only towards
// the beginning, so it moves no entry past the walk.
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

// copyChunk appends the last entries before index end to a list. It returns the list and the index
// of the first of these entries.
func (m *chunkMap[K, V]) copyChunk(mu *sync.Mutex, to []chunkEntry[K, V], end int) ([]chunkEntry[K, V], int) {
	mu.Lock()
	defer mu.Unlock()
	end = min(end, len(m.list))
	begin := max(0, end-chunkSize)
	return append(to, m.list[begin:end]...), begin
}
