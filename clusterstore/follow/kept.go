package follow

import (
	"hash/maphash"
	"iter"
	"maps"
	"math"

	"isthmus/clusterstore/budget"
)

// kept charges the cluster's budget for the objects of one resource: those in the Store
// or, while a list is read that is larger, those of the list. So a cluster that fits does
// fit while it is listed anew. It belongs to the resource's goroutine. nil charges nothing.
type kept struct {
	budget *budget.Budget     // fixed
	what   string             // fixed: for errors
	seed   maphash.Seed       // fixed
	sizes  map[keyHash]size32 // of the objects in the Store
	most   int                // that sizes has had since it was made
	stored int64              // their sum
	listed int64              // of the list that is being read
	has    int64              // that is charged
}

// keyHash stands for the key of an object, which would take several times as much. Of two
// objects with the same one, which nobody can bring about and one of 100,000 has, the newest
// counts.
type keyHash uint32

// size32 is the size of an object, in bytes: 4 GiB for more.
type size32 uint32

func newSize32(size int64) size32 { return size32(min(size, math.MaxUint32)) }

func newKept(b *budget.Budget, resource string) *kept {
	if b == nil {
		return nil
	}
	return &kept{budget: b, what: "what is kept of " + resource, seed: maphash.MakeSeed(), sizes: make(map[keyHash]size32)}
}

func (k *kept) hash(key string) keyHash { return keyHash(maphash.String(k.seed, key)) }

// sizeOf is [sizeOf], or 0 if nothing is charged.
func (k *kept) sizeOf(key string, value any) int64 {
	if k == nil {
		return 0
	}
	return sizeOf(key, value)
}

// beginList forgets what has been listed.
func (k *kept) beginList() {
	if k != nil {
		_ = k.charge(k.stored, 0) // gives back
	}
}

// list charges one more object of a list.
func (k *kept) list(size int64) error {
	if k == nil {
		return nil
	}
	return k.charge(k.stored, k.listed+size)
}

// replace records that the Store has these n objects and no others, all of which have been
// charged by list. It gets their keys and sizes.
func (k *kept) replace(n int, objects iter.Seq2[string, int64]) {
	if k == nil {
		return
	}
	sizes, stored := make(map[keyHash]size32, n), int64(0)
	for key, size := range objects {
		sizes[k.hash(key)] = newSize32(size)
	}
	for size := range maps.Values(sizes) {
		stored += int64(size)
	}
	k.sizes, k.most = sizes, len(sizes)
	_ = k.charge(stored, 0) // gives back: list has charged as much
}

// put charges an object that is to be put into the Store.
func (k *kept) put(key string, size int64) error {
	if k == nil {
		return nil
	}
	h, now := k.hash(key), newSize32(size)
	if err := k.charge(k.stored-int64(k.sizes[h])+int64(now), k.listed); err != nil {
		return err
	}
	k.sizes[h] = now
	k.most = max(k.most, len(k.sizes))
	return nil
}

// drop gives back what an object has that is no longer in the Store.
func (k *kept) drop(key string) {
	if k == nil {
		return
	}
	h := k.hash(key)
	_ = k.charge(k.stored-int64(k.sizes[h]), k.listed) // gives back
	delete(k.sizes, h)
	if len(k.sizes) < k.most/4 { // a map keeps the room that it had
		k.sizes, k.most = maps.Collect(maps.All(k.sizes)), len(k.sizes)
	}
}

// charge sets stored and listed, unless the budget refuses that.
func (k *kept) charge(stored, listed int64) error {
	has := max(stored, listed)
	if err := k.budget.Keep(has-k.has, k.what); err != nil {
		return err
	}
	k.stored, k.listed, k.has = stored, listed, has
	return nil
}
