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
	// objectSize is what an object takes in this package: an entry of kept.sizes, and the start of its key.
	objectSize = 56
	// shareSize is what a value that objects share takes in this package: an entry of kept.shared.
	shareSize = 96
	// sameSize is what an object of a list takes that is cached as it is, so that only its print is staged.
	sameSize = 32
)

// kept counts the objects of one resource against the cluster's memory cap: those that are cached and, while a list
// is being read, those that are staged beside them. Only one goroutine at a time uses it. A nil *kept counts
// nothing.
type kept struct {
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

func newKept(m *MemoryCap, resource string, p prints) *kept {
	if m == nil {
		return nil
	}
	return &kept{memory: m, what: resource, prints: p, sizes: make(map[print]int64), shared: make(map[any]*share)}
}

// refer adds references to shared values: so many of cached objects and so many of listed ones. Negative numbers
// remove references.
func (k *kept) refer(to handles, cached, listed int) {
	for handle, size := range to.all {
		one := k.shared[handle]
		if one == nil {
			one = &share{size: shareSize + size}
			k.shared[handle] = one
		}
		k.sumShare(one, -1)
		one.cached += cached
		one.listed += listed
		k.sumShare(one, 1)
		if one.cached == 0 && one.listed == 0 {
			delete(k.shared, handle)
		}
	}
}

// sumShare adds a shared value to the sums, or subtracts it.
func (k *kept) sumShare(one *share, sign int64) {
	if one.cached > 0 {
		k.sums.cachedShared += sign * one.size
	}
	if one.listed > 0 {
		k.sums.listedShared += sign * one.size
	}
	if one.listed > 0 && one.cached == 0 {
		k.sums.stagedShared += sign * one.size
	}
}

// stage counts one more object of a list.
func (k *kept) stage(size int64, of handles) error {
	if k == nil {
		return nil
	}
	return k.stageAs(size, size, of)
}

// stageSame counts an object of a list that is cached as it is.
func (k *kept) stageSame(key string, of handles) error {
	if k == nil {
		return nil
	}
	return k.stageAs(sameSize, k.sizes[k.prints.of(key)], of)
}

// stageNone counts an object of a list that is not to be cached. Without that, a list of such objects might have no
// end.
func (k *kept) stageNone() error {
	if k == nil {
		return nil
	}
	return k.stageAs(sameSize, 0, nil)
}

// stageAs counts an object of a list by what it takes now, and what it will take in the cache.
func (k *kept) stageAs(staged, listed int64, of handles) error {
	k.refer(of, 0, 1)
	k.sums.staged += staged
	k.sums.listed += listed
	err := k.charge()
	if err != nil {
		k.sums.staged -= staged
		k.sums.listed -= listed
		k.refer(of, 0, -1)
	}
	return err
}

// unstage gives back the shared values of a staged object. Its own bytes count until the end of the list: so a list
// that repeats the same objects exceeds the cap.
func (k *kept) unstage(of handles) {
	if k != nil {
		k.refer(of, 0, -1)
	}
}

// commit begins to put the staged objects into the cache. unstageAll ends that.
func (k *kept) commit() {
	if k != nil {
		k.committing = true
	}
}

// unstageAll forgets what is staged.
func (k *kept) unstageAll() {
	if k == nil {
		return
	}
	k.committing = false
	for handle, one := range k.shared {
		one.listed = 0
		if one.cached == 0 {
			delete(k.shared, handle)
		}
	}
	k.shared = maps.Collect(maps.All(k.shared)) // a map does not shrink
	k.sums = sums{cached: k.sums.cached, cachedShared: k.sums.cachedShared}
	k.settle()
}

// announced refuses a list whose first page announces that many more objects, if they can't fit even if each is as
// small as the smallest of the page.
func (k *kept) announced(least, more int64) error {
	if k == nil || more <= 0 || least == 0 {
		return nil
	}
	if more > math.MaxInt64/2/least {
		more = math.MaxInt64 / 2 / least
	}
	whole := k.sums
	whole.listed += least * more
	return k.memory.fits(whole.counted()-k.counted, k.what)
}

// keep records that a staged object replaces a cached one with the handles of before.
func (k *kept) keep(key string, size int64, of, before handles) {
	if k == nil {
		return
	}
	k.refer(of, 1, 0)
	k.refer(before, -1, 0)
	p := k.prints.of(key)
	k.sums.cached += size - k.sizes[p]
	k.sums.staged -= size
	k.settle()
	k.record(p, size)
}

// put counts an object that is to replace a cached one with the handles of before.
func (k *kept) put(key string, size int64, of, before handles) error {
	if k == nil {
		return nil
	}
	p := k.prints.of(key)
	more := size - k.sizes[p]
	k.refer(of, 1, 0)
	k.refer(before, -1, 0)
	k.sums.cached += more
	if err := k.charge(); err != nil {
		k.refer(before, 1, 0)
		k.refer(of, -1, 0)
		k.sums.cached -= more
		return err
	}
	k.record(p, size)
	return nil
}

func (k *kept) record(p print, size int64) {
	k.sizes[p] = size
	k.peak = max(k.peak, len(k.sizes))
}

// drop gives back what a cached object with these handles has taken.
func (k *kept) drop(key string, of handles) {
	if k == nil {
		return
	}
	k.refer(of, -1, 0)
	p := k.prints.of(key)
	k.sums.cached -= k.sizes[p]
	k.settle()
	delete(k.sizes, p)
	if len(k.sizes) < k.peak/4 { // a map does not shrink
		k.sizes = maps.Collect(maps.All(k.sizes))
		k.shared = maps.Collect(maps.All(k.shared))
		k.peak = len(k.sizes)
	}
}

// charge counts the sums against the cap, unless they exceed it.
func (k *kept) charge() error {
	counted, staged := k.sums.counted(), k.sums.beside()
	if err := k.memory.add(counted-k.counted, staged-k.staged, k.what); err != nil {
		return err
	}
	k.counted, k.staged = counted, staged
	return nil
}

// settle counts the sums against the cap after a change that is not refused.
func (k *kept) settle() {
	if k.committing {
		return
	}
	counted, staged := k.sums.counted(), k.sums.beside()
	k.memory.adjust(counted-k.counted, staged-k.staged)
	k.counted, k.staged = counted, staged
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
