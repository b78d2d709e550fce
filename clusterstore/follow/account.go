package follow

import (
	"hash/maphash"
	"iter"
	"maps"
	"math"
)

// A print is a hash of an object's key, and needs less memory than the key. API servers cannot
// provoke collisions, because they do not know the seed of the hash.
type print uint64

type prints struct{ seed maphash.Seed }

func newPrints() prints { return prints{maphash.MakeSeed()} }

func (p prints) of(key string) print { return print(maphash.String(p.seed, key)) }

// The estimate of a cache's memory use includes the following sizes, in bytes, in addition to the
// sizes of the keys and values. A test in clusterstore/cluster compares the estimated size of a
// cache with the heap memory that the cache uses.
const (
	objectSize = 56 // an entry of account.sizes, and the string header of the object's key
	shareSize  = 96 // an entry of account.shared
	sameSize   = 32 // an unchanged object of a list, for which only the print is staged
)

// An account counts the cached and staged objects of one resource against the cluster's memory cap.
// An account is not safe for concurrent use. A nil *account counts nothing.
type account struct {
	memory *MemoryCap // fixed
	what   string     // fixed; the resource
	prints prints     // fixed

	sizes  map[print]int64 // of cached and refused objects
	peak   int             // maximum number of entries in the sizes map since the map was created
	shared map[any]*share  // shared values by handle
	sums   sums

	// committing is true while the objects of a list are moved into the Store. During the move, the
	// MemoryCap is not updated, because the sums include the old objects in addition to the new
	// ones.
	committing      bool
	counted, staged int64 // bytes that the memory cap currently counts for the resource
}

type sums struct {
	cached int64 // cached objects
	listed int64 // objects of the list that is being read, with their future size in the cache
	staged int64 // memory that the list uses in addition to the cache

	// The following sums count each shared value only once.
	cachedShared int64 // shared values of cached objects
	listedShared int64 // shared values of listed objects
	stagedShared int64 // shared values of listed objects only
}

// counted returns the cached size or the listed size, whichever is larger. The result counts
// against the memory cap.
func (s *sums) counted() int64 { return max(s.cached+s.cachedShared, s.listed+s.listedShared) }

// The beside method returns the size, in bytes, of the data that is staged outside the cache while
// a list is read.
func (s *sums) beside() int64 { return s.staged + s.stagedShared }

type share struct {
	cached, listed int // references from cached and from listed objects
	size           int64
}

type handles iter.Seq2[any, int64] // the shared values of an object and their sizes; nil means none

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

// refer adds the given numbers, which may be negative, to the reference counts of shared values.
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

func (a *account) stage(size int64, of handles) error {
	if a == nil {
		return nil
	}
	return a.stageAs(size, size, of)
}

func (a *account) stageSame(key string, of handles) error {
	if a == nil {
		return nil
	}
	return a.stageAs(sameSize, a.sizes[a.prints.of(key)], of)
}

// stageNone counts one listed object that will not be cached. If uncached objects did not count, a
// server could send an endless list of them.
func (a *account) stageNone() error {
	if a == nil {
		return nil
	}
	return a.stageAs(sameSize, 0, nil)
}

// stageAs counts a listed object. The second argument is the size that the object will have in the
// cache.
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

// unstage subtracts the references of a staged object from the reference counts of its shared
// values. The object's bytes are not subtracted until the list ends. Otherwise, an endless list
// that repeats the same objects would never exceed the memory cap.
func (a *account) unstage(of handles) {
	if a != nil {
		a.refer(of, 0, -1)
	}
}

// Callers must call commit before they move staged objects into the cache, and must call unstageAll
// after the move.
func (a *account) commit() {
	if a != nil {
		a.committing = true
	}
}

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

// announced returns an error if the whole list, including the objects that the server has not sent
// yet, would exceed the memory cap. Each of the remaining objects is assumed to be as small as the
// smallest object on the first page.
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

// The keep method moves the size of an object from the staged sum to the cached sum. The last
// argument contains the shared values of the object that the staged object replaces.
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

// The put method accounts for an object that an event adds or changes.
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

// The charge method counts the current sums against the memory cap. If the sums exceed the cap,
// charge returns an error and changes nothing.
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

// The settle method counts the current sums against the memory cap, even if the sums exceed the
// cap. Callers use settle for changes that cannot be rejected, such as the deletion of an object.
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

// refusedKey returns the key under which a refused object is counted. Object keys never begin with
// a slash, because package decode rejects names and namespaces that contain a slash.
func refusedKey(key string) string { return "//" + key }

// refusedEntrySize is the size, in bytes, of an entry in Resource.unusable, excluding the entry's
// strings.
const refusedEntrySize = 128

func refusedSize(key, why string) int64 {
	return objectSize + refusedEntrySize + int64(len(key)+len(why))
}
