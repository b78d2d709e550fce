package follow

import (
	"hash/maphash"
	"iter"
	"maps"
	"math"
)

// print is a hash of an object's key, which would take several times as much memory. Collisions are
// not expected, because an API server does not know the seed of the hash.
type print uint64

// prints computes prints.
type prints struct{ seed maphash.Seed }

func newPrints() prints { return prints{maphash.MakeSeed()} }

func (p prints) of(key string) print { return print(maphash.String(p.seed, key)) }

// Sizes that the memory cap counts for an object besides its key and value, in bytes. A test of
// clusterstore/cluster compares the sums with the heap.
const (
	// objectSize is what an object takes in this package: an entry of account.sizes, and the string
	// header of its key.
	objectSize = 56
	// shareSize is what a shared value takes in this package: an entry of account.shared.
	shareSize = 96
	// sameSize is what an unchanged object of a list takes, of which only the print is staged.
	sameSize = 32
)

// account counts the objects of one resource against the cluster's memory cap: the cached objects
// and, while a list is being read, the staged objects. An account is not safe for concurrent use. A
// nil *account counts nothing.
type account struct {
	memory *MemoryCap // fixed
	what   string     // fixed; the resource
	prints prints     // fixed

	sizes  map[print]int64 // of cached and refused objects
	peak   int             // largest number of entries of sizes since the map was made
	shared map[any]*share  // shared values by handle
	sums   sums

	// committing is true while the objects of a list move into the Store. Old objects are dropped
	// last, so the sums would count old and new objects together. The cap therefore keeps the sums
	// of the whole list until the end.
	committing bool
	// counted and staged are the sums that the cap counts now.
	counted, staged int64
}

// sums are the sizes of a resource's objects, in bytes.
type sums struct {
	cached int64 // cached objects
	listed int64 // objects of the list that is being read, with their future size in the cache
	staged int64 // memory that the list takes beside the cache

	// Each shared value counts once in each of these sums:
	cachedShared int64 // shared values of cached objects
	listedShared int64 // shared values of listed objects
	stagedShared int64 // shared values of listed objects only
}

// counted returns the bytes that count against the cap: the larger of the cache and the list.
func (s *sums) counted() int64 { return max(s.cached+s.cachedShared, s.listed+s.listedShared) }

// beside returns the bytes that are staged beside the cache.
func (s *sums) beside() int64 { return s.staged + s.stagedShared }

// share counts the references to a shared value.
type share struct {
	cached, listed int // references from cached and from listed objects
	size           int64
}

// handles iterates over the shared values of an object and their sizes. A nil handles is empty.
type handles iter.Seq2[any, int64]

func (h handles) all(yield func(any, int64) bool) {
	if h != nil {
		h(yield)
	}
}

func newAccount(m *MemoryCap, resource string, p prints) *account {
	if m == nil {
		return nil
	}
	return &account{memory: m, what: resource, prints: p, sizes: make(map[print]int64), shared: make(map[any]*share)}
}

// refer adds references from cached and from listed objects to shared values. Negative numbers
// remove references.
func (a *account) refer(to handles, cached, listed int) {
	for handle, size := range to.all {
		one := a.shared[handle]
		if one == nil {
			one = &share{size: shareSize + size}
			a.shared[handle] = one
		}
		a.sumShare(one, -1)
		one.cached += cached
		one.listed += listed
		a.sumShare(one, 1)
		if one.cached == 0 && one.listed == 0 {
			delete(a.shared, handle)
		}
	}
}

// sumShare adds a shared value to the sums, multiplied by sign.
func (a *account) sumShare(one *share, sign int64) {
	if one.cached > 0 {
		a.sums.cachedShared += sign * one.size
	}
	if one.listed > 0 {
		a.sums.listedShared += sign * one.size
	}
	if one.listed > 0 && one.cached == 0 {
		a.sums.stagedShared += sign * one.size
	}
}

// stage counts one more object of a list.
func (a *account) stage(size int64, of handles) error {
	if a == nil {
		return nil
	}
	return a.stageAs(size, size, of)
}

// stageSame counts an object of a list that equals its cached version.
func (a *account) stageSame(key string, of handles) error {
	if a == nil {
		return nil
	}
	return a.stageAs(sameSize, a.sizes[a.prints.of(key)], of)
}

// stageNone counts an object of a list that will not be cached. Otherwise, a list of such objects
// could be endless.
func (a *account) stageNone() error {
	if a == nil {
		return nil
	}
	return a.stageAs(sameSize, 0, nil)
}

// stageAs counts an object of a list with its present size and its future size in the cache.
func (a *account) stageAs(staged, listed int64, of handles) error {
	a.refer(of, 0, 1)
	a.sums.staged += staged
	a.sums.listed += listed
	err := a.charge()
	if err != nil {
		a.sums.staged -= staged
		a.sums.listed -= listed
		a.refer(of, 0, -1)
	}
	return err
}

// unstage removes the references of a staged object. The object's own bytes count until the end of
// the list, so that a list which repeats objects exceeds the cap.
func (a *account) unstage(of handles) {
	if a != nil {
		a.refer(of, 0, -1)
	}
}

// commit starts to move the staged objects into the cache. unstageAll ends the move.
func (a *account) commit() {
	if a != nil {
		a.committing = true
	}
}

// unstageAll resets the staged sums.
func (a *account) unstageAll() {
	if a == nil {
		return
	}
	a.committing = false
	for handle, one := range a.shared {
		one.listed = 0
		if one.cached == 0 {
			delete(a.shared, handle)
		}
	}
	a.shared = maps.Collect(maps.All(a.shared)) // copied, because maps do not shrink
	a.sums = sums{cached: a.sums.cached, cachedShared: a.sums.cachedShared}
	a.settle()
}

// announced refuses a list whose first page announces too many more objects. announced assumes that
// each of them is as small as the smallest object of the page.
func (a *account) announced(least, more int64) error {
	if a == nil || more <= 0 || least == 0 {
		return nil
	}
	if more > math.MaxInt64/2/least {
		more = math.MaxInt64 / 2 / least
	}
	whole := a.sums
	whole.listed += least * more
	return a.memory.fits(whole.counted()-a.counted, a.what)
}

// keep records that a staged object replaces a cached one, whose handles are before.
func (a *account) keep(key string, size int64, of, before handles) {
	if a == nil {
		return
	}
	a.refer(of, 1, 0)
	a.refer(before, -1, 0)
	p := a.prints.of(key)
	a.sums.cached += size - a.sizes[p]
	a.sums.staged -= size
	a.settle()
	a.record(p, size)
}

// put counts an object that will replace a cached one, whose handles are before.
func (a *account) put(key string, size int64, of, before handles) error {
	if a == nil {
		return nil
	}
	p := a.prints.of(key)
	more := size - a.sizes[p]
	a.refer(of, 1, 0)
	a.refer(before, -1, 0)
	a.sums.cached += more
	if err := a.charge(); err != nil {
		a.refer(before, 1, 0)
		a.refer(of, -1, 0)
		a.sums.cached -= more
		return err
	}
	a.record(p, size)
	return nil
}

func (a *account) record(p print, size int64) {
	a.sizes[p] = size
	a.peak = max(a.peak, len(a.sizes))
}

// drop subtracts a cached object with these handles.
func (a *account) drop(key string, of handles) {
	if a == nil {
		return
	}
	a.refer(of, -1, 0)
	p := a.prints.of(key)
	a.sums.cached -= a.sizes[p]
	a.settle()
	delete(a.sizes, p)
	if len(a.sizes) < a.peak/4 { // maps do not shrink
		a.sizes = maps.Collect(maps.All(a.sizes))
		a.shared = maps.Collect(maps.All(a.shared))
		a.peak = len(a.sizes)
	}
}

// charge counts the sums against the cap. If the sums exceed the cap, it returns an error and
// changes nothing.
func (a *account) charge() error {
	counted := a.sums.counted()
	staged := a.sums.beside()
	if err := a.memory.add(counted-a.counted, staged-a.staged, a.what); err != nil {
		return err
	}
	a.counted = counted
	a.staged = staged
	return nil
}

// settle counts the sums against the cap after a change that can't be refused.
func (a *account) settle() {
	if a.committing {
		return
	}
	counted := a.sums.counted()
	staged := a.sums.beside()
	a.memory.adjust(counted-a.counted, staged-a.staged)
	a.counted = counted
	a.staged = staged
}

// refusedKey returns the key that counts for a refused object. No object has such a key, because
// decode refuses names with a slash.
func refusedKey(key string) string { return "//" + key }

// refusedEntrySize is the size of an entry of Resource.unusable without its texts, in bytes.
const refusedEntrySize = 128

// refusedSize is the size that the memory cap counts for a refused object, in bytes.
func refusedSize(key, why string) int64 {
	return objectSize + refusedEntrySize + int64(len(key)+len(why))
}
