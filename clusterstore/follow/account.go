package follow

import (
	"hash/maphash"
	"iter"
	"maps"
	"math"
)

// print stands for the key of an object, which takes several times as much memory. Two objects do not have the
// same one, since an API server does not know how prints are made.
type print uint64

// prints makes prints.
type prints struct{ seed maphash.Seed }

func newPrints() prints { return prints{maphash.MakeSeed()} }

func (p prints) of(key string) print { return print(maphash.String(p.seed, key)) }

// What the cap counts for one object besides its key and its value, in bytes. A test of clusterstore/cluster
// compares the sums with the heap.
const (
	// objectSize is what an object takes in this package: an entry of account.sizes, and the start of its key.
	objectSize = 56
	// shareSize is what a value that objects share takes in this package: an entry of account.shared.
	shareSize = 96
	// sameSize is what an object of a list takes that is cached as it is, so that only its print is staged.
	sameSize = 32
)

// account counts the objects of one resource against the cluster's memory cap: those that are cached and, while a list
// is being read, those that are staged beside them. Only one goroutine at a time uses it. A nil *account counts
// nothing.
type account struct {
	memory *MemoryCap // fixed
	what   string     // fixed: the resource
	prints prints     // fixed

	sizes  map[print]int64 // of cached objects, and of refused ones
	peak   int             // the most entries that sizes has had since it was made
	shared map[any]*share  // values that objects share, by handle
	sums   sums

	// committing is true while the objects of a list are put into the Store. Old objects are dropped last, so that the
	// sums would count them beside the new ones. Until the end, the cap has the sums of the whole list.
	committing bool
	// counted and staged are what the cap has of the sums.
	counted, staged int64
}

// sums are the sizes of a resource's objects, in bytes.
type sums struct {
	cached int64 // cached objects
	listed int64 // objects of the list that is being read, as large as they will be in the cache
	staged int64 // what the list takes beside the cache

	// The values that objects share count once:
	cachedShared int64 // those of cached objects
	listedShared int64 // those of the list
	stagedShared int64 // those of the list alone
}

// counted returns what counts against the cap: the larger of what is cached and what is listed.
func (s *sums) counted() int64 { return max(s.cached+s.cachedShared, s.listed+s.listedShared) }

// beside returns what is staged beside the cache.
func (s *sums) beside() int64 { return s.staged + s.stagedShared }

// share counts the references to a value that objects share.
type share struct {
	cached, listed int // references of cached objects, and of objects of the list
	size           int64
}

// handles iterates over the shared values of an object and their sizes. A nil handles has none.
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

// refer adds references to shared values: so many of cached objects and so many of listed ones. Negative numbers
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

// sumShare adds a shared value to the sums, or subtracts it.
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

// stageSame counts an object of a list that is cached as it is.
func (a *account) stageSame(key string, of handles) error {
	if a == nil {
		return nil
	}
	return a.stageAs(sameSize, a.sizes[a.prints.of(key)], of)
}

// stageNone counts an object of a list that is not to be cached. Without that, a list of such objects might have no
// end.
func (a *account) stageNone() error {
	if a == nil {
		return nil
	}
	return a.stageAs(sameSize, 0, nil)
}

// stageAs counts an object of a list by what it takes now, and what it will take in the cache.
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

// unstage gives back the shared values of a staged object. Its own bytes count until the end of the list: so a list
// that repeats the same objects exceeds the cap.
func (a *account) unstage(of handles) {
	if a != nil {
		a.refer(of, 0, -1)
	}
}

// commit begins to put the staged objects into the cache. unstageAll ends that.
func (a *account) commit() {
	if a != nil {
		a.committing = true
	}
}

// unstageAll forgets what is staged.
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
	a.shared = maps.Collect(maps.All(a.shared)) // a map does not shrink
	a.sums = sums{cached: a.sums.cached, cachedShared: a.sums.cachedShared}
	a.settle()
}

// announced refuses a list whose first page announces that many more objects, if they can't fit even if each is as
// small as the smallest of the page.
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

// keep records that a staged object replaces a cached one with the handles of before.
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

// put counts an object that is to replace a cached one with the handles of before.
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

// drop gives back what a cached object with these handles has taken.
func (a *account) drop(key string, of handles) {
	if a == nil {
		return
	}
	a.refer(of, -1, 0)
	p := a.prints.of(key)
	a.sums.cached -= a.sizes[p]
	a.settle()
	delete(a.sizes, p)
	if len(a.sizes) < a.peak/4 { // a map does not shrink
		a.sizes = maps.Collect(maps.All(a.sizes))
		a.shared = maps.Collect(maps.All(a.shared))
		a.peak = len(a.sizes)
	}
}

// charge counts the sums against the cap, unless they exceed it.
func (a *account) charge() error {
	counted, staged := a.sums.counted(), a.sums.beside()
	if err := a.memory.add(counted-a.counted, staged-a.staged, a.what); err != nil {
		return err
	}
	a.counted, a.staged = counted, staged
	return nil
}

// settle counts the sums against the cap after a change that is not refused.
func (a *account) settle() {
	if a.committing {
		return
	}
	counted, staged := a.sums.counted(), a.sums.beside()
	a.memory.adjust(counted-a.counted, staged-a.staged)
	a.counted, a.staged = counted, staged
}

// refusedKey is what an object that is refused is charged by. No object has such a key: decode lets no name
// with a slash pass.
func refusedKey(key string) string { return "//" + key }

// refusedEntrySize is what an entry of Resource.unusable takes besides its texts, in bytes.
const refusedEntrySize = 128

// refusedSize is what the memory cap counts for an object that is refused, in bytes.
func refusedSize(key, why string) int64 {
	return objectSize + refusedEntrySize + int64(len(key)+len(why))
}
