package follow

import (
	"iter"
	"maps"
	"math"
	"reflect"

	"isthmus/clusterstore/budget"
)

// kept charges the cluster's budget for the objects of one resource: those in the Store and,
// while a list is read, those that are staged beside them. For the limit of the cluster alone
// either those in the Store count or those of the list, whichever are more: so a cluster that fits does fit
// while it is listed anew. Only one goroutine at a time uses it. nil charges nothing.
type kept struct {
	budget *budget.Budget  // fixed
	what   string          // fixed: for errors
	prints prints          // fixed
	sizes  map[print]int64 // of the objects in the Store, and of those refused
	peak   int             // the most entries that sizes has had since it was made
	stored int64           // their sum
	staged int64           // what the list takes that is being read
	listed int64           // what its objects will take in the Store
	shared map[any]*share  // by handle
	common int64           // their sum
	used   int64           // that is charged
	counts int64           // of it, that counts for the limit of the cluster
}

// share is what a handle stands for that objects have.
type share struct {
	n    int // how often they do
	size int64
}

// handles iterates over those of a value. nil has none.
type handles iter.Seq[any]

func (h handles) all(yield func(any) bool) {
	if h != nil {
		h(yield)
	}
}

func newKept(b *budget.Budget, resource string, p prints) *kept {
	if b == nil {
		return nil
	}
	return &kept{budget: b, what: "what is kept of " + resource, prints: p, sizes: make(map[print]int64), shared: make(map[any]*share)}
}

// acquire counts the handles of one more value.
func (k *kept) acquire(of handles) {
	for h := range of.all {
		one := k.shared[h]
		if one == nil {
			one = &share{size: behind(reflect.ValueOf(h), sizeDepth, true)}
			k.shared[h] = one
			k.common += one.size
		}
		one.n++
	}
}

// release gives back what acquire has counted.
func (k *kept) release(of handles) {
	for h := range of.all {
		one := k.shared[h]
		if one == nil {
			continue
		}
		if one.n--; one.n == 0 {
			k.common -= one.size
			delete(k.shared, h)
		}
	}
}

// stage charges one more object of a list.
func (k *kept) stage(size int64, of handles) error {
	if k == nil {
		return nil
	}
	k.acquire(of)
	err := k.charge(k.stored, k.staged+size, k.listed+size)
	if err != nil {
		k.release(of)
	}
	return err
}

// stageNone charges one more object of a list of which nothing is staged: the one with that key is in the Store as it is, or,
// with no key, it is not to be kept. So a list ends that has such objects without end.
func (k *kept) stageNone(key string) error {
	if k == nil {
		return nil
	}
	return k.charge(k.stored, k.staged+sameSize, k.listed+k.sizes[k.prints.of(key)])
}

// unstageAll forgets what is staged.
func (k *kept) unstageAll() {
	if k != nil {
		k.set(k.stored, 0, 0)
	}
}

// announced refuses a list whose first page, of objects of this size at least, announces so many more
// that they can't be kept even if none is larger.
func (k *kept) announced(least, more int64) error {
	if k == nil || more <= 0 || least == 0 {
		return nil
	}
	if more > math.MaxInt64/2/least {
		more = math.MaxInt64 / 2 / least
	}
	return k.budget.Fits(max(k.stored, k.listed+least*more)+k.common-k.counts, k.what)
}

// keep records that a staged object is in the Store now, in place of one with these handles.
func (k *kept) keep(key string, size int64, before handles) {
	if k == nil {
		return
	}
	k.release(before)
	p := k.prints.of(key)
	k.set(k.stored-k.sizes[p]+size, k.staged-size, k.listed)
	k.record(p, size)
}

// put charges an object that is to be put into the Store, in place of one with the handles of before.
func (k *kept) put(key string, size int64, of, before handles) error {
	if k == nil {
		return nil
	}
	p := k.prints.of(key)
	k.acquire(of)
	if err := k.charge(k.stored-k.sizes[p]+size, k.staged, k.listed); err != nil {
		k.release(of)
		return err
	}
	k.release(before)
	k.set(k.stored, k.staged, k.listed)
	k.record(p, size)
	return nil
}

func (k *kept) record(p print, size int64) {
	k.sizes[p] = size
	k.peak = max(k.peak, len(k.sizes))
}

// drop gives back what an object with these handles has that is no longer in the Store.
func (k *kept) drop(key string, of handles) {
	if k == nil {
		return
	}
	k.release(of)
	p := k.prints.of(key)
	k.set(k.stored-k.sizes[p], k.staged, k.listed)
	delete(k.sizes, p)
	if len(k.sizes) < k.peak/4 { // a map keeps the room that it had
		k.sizes, k.peak = maps.Collect(maps.All(k.sizes)), len(k.sizes)
	}
}

// charge is set, unless the budget refuses that.
func (k *kept) charge(stored, staged, listed int64) error {
	used, counts := stored+staged+k.common, max(stored, listed)+k.common
	if err := k.budget.Keep(used-k.used, counts-k.counts, k.what); err != nil {
		return err
	}
	k.used, k.counts, k.stored, k.staged, k.listed = used, counts, stored, staged, listed
	return nil
}

// set charges what takes no more than before.
func (k *kept) set(stored, staged, listed int64) {
	used, counts := stored+staged+k.common, max(stored, listed)+k.common
	k.budget.Change(used-k.used, counts-k.counts)
	k.used, k.counts, k.stored, k.staged, k.listed = used, counts, stored, staged, listed
}

// handles returns those of a value.
func (f *feed[O, T]) handles(value T) handles {
	if f.kept == nil || f.kind.Shared == nil {
		return nil
	}
	return func(yield func(any) bool) { f.kind.Shared(value, yield) }
}

// handlesOf returns those of what is stored.
func (f *feed[O, T]) handlesOf(s stored[T]) handles {
	if !s.there {
		return nil
	}
	return f.handles(s.value)
}
