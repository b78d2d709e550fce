package follow

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/decode"
)

// feed compacts each object, of type O, to a T as it is decoded, and puts that into the kind's
// Store. All its methods are called by the goroutine of the resource's run, except checkDrift.
type feed[O decode.Object, T any] struct {
	kind     Kind[O, T]
	resource *Resource
	kept     *kept     // nil: without a budget
	stage    *stage[T] // of the list that is being read; nil: none
	prints   prints

	// mu is held while the Store is used, which a check does beside run. Only
	// goroutines of the resource's and that of checks take it.
	mu    sync.Mutex
	whole bool      // all objects are in the Store: they have been listed, and no list is being read
	check *check[T] // nil: none is under way
}

func newFeed[O decode.Object, T any](k Kind[O, T], r *Resource) *feed[O, T] {
	return &feed[O, T]{kind: k, resource: r, prints: newPrints()}
}

func (f *feed[O, T]) useBudget() {
	f.kept = newKept(f.resource.group.options.Budget, f.resource.name, f.prints)
}

// commit puts what is staged into the Store, and drops the objects that are not in it. watched: the list came by a watch,
// which goes on.
func (f *feed[O, T]) commit(watched bool) {
	staged := f.stage
	f.stage = nil
	f.mu.Lock()
	f.replaceAll(staged)
	f.whole = true
	f.mu.Unlock()
	f.resource.relists = true
	f.resource.readable(watched)
	f.applied()
	f.resource.markTried()
}

// replaceAll puts what is staged into the Store, in place of all that is there, and reports whether that
// dropped anything. Objects are dropped last, so that their replacements (another slice, Pod, Server or
// ServiceProfile) are there before. But their addresses are released first (PrepareDrop): an address
// with two owners is ambiguous, and a proxy that got that answer does not ask again. f.mu is held.
func (f *feed[O, T]) replaceAll(staged *stage[T]) (dropped bool) {
	var gone []string
	for key := range f.kind.Into.Keys {
		if !staged.has(key) {
			gone = append(gone, key)
		}
	}
	for _, key := range gone {
		f.kind.Into.PrepareDrop(key)
	}
	f.putAll(slices.Collect(maps.Values(staged.objects)))
	for _, key := range gone {
		f.drop(key)
	}
	f.keepRefused(staged.refused)
	return len(gone) > 0
}

// clear drops all objects: the API has none of the kind.
func (f *feed[O, T]) clear() {
	f.mu.Lock()
	dropped := f.replaceAll(newStage[T](f.prints))
	f.mu.Unlock()
	if dropped {
		f.applied()
	}
}

// apply does what an event says. An error is the budget's: what has been read stays. Of an object that is
// refused, what was kept stays.
func (f *feed[O, T]) apply(e event) error {
	f.resource.group.event()
	c := e.object.(*compacted[T])
	var err error
	var corrected []Drift
	f.mu.Lock()
	switch e.kind {
	case watch.Added:
		f.resource.lag.seen(c.updated)
		err = f.store(c)
	case watch.Modified:
		f.resource.lag.observe(c.updated)
		err = f.store(c)
	case watch.Deleted:
		f.drop(c.key)
		f.forgive(c.key)
	}
	if e.kind != watch.Bookmark {
		f.touch(c.key)
	}
	if err == nil {
		corrected, err = f.reached(e.version)
	}
	f.mu.Unlock()
	f.applied()
	f.resource.reportDrift(corrected)
	return err
}

// store puts, drops or refuses an object. f.mu is held.
func (f *feed[O, T]) store(c *compacted[T]) error {
	switch {
	case c.refused != "":
		if err := f.kept.put(refusedKey(c.key), c.size, nil, nil); err != nil {
			return err
		}
		f.resource.noteRefused(c.key, c.refused)
		return nil
	case !c.ok:
		f.drop(c.key)
	default:
		if err := f.kept.put(c.key, c.size, f.handles(c.value), f.handlesOf(c.key)); err != nil {
			return err
		}
		f.put(c)
	}
	f.forgive(c.key)
	return nil
}

// same reports whether the Store has that very value.
func (f *feed[O, T]) same(c *compacted[T]) bool {
	value, ok := f.kind.Into.Get(c.key)
	return ok && f.kind.Same(value, c.value)
}

// putAll puts the objects of a list, those that belong together in one step.
func (f *feed[O, T]) putAll(list []*compacted[T]) {
	together := f.kind.Together
	if together == nil {
		for _, c := range list {
			before := f.handlesOf(c.key)
			f.put(c)
			f.kept.keep(c.key, c.size, before)
		}
		return
	}
	compare := func(a, b *compacted[T]) int { return together(a.value, b.value) }
	slices.SortStableFunc(list, compare)
	for len(list) > 0 {
		n := 1
		for n < len(list) && compare(list[0], list[n]) == 0 {
			n++
		}
		effects, before := make([]Effect, n), make([]handles, n)
		for i, c := range list[:n] {
			before[i] = f.handlesOf(c.key)
		}
		f.kind.Into.(Joint[T]).PutTogether(func(put func(string, T) Effect) {
			for i, c := range list[:n] {
				effects[i] = put(c.key, c.value)
			}
		})
		for i, c := range list[:n] {
			f.hasPut(c, effects[i])
			f.kept.keep(c.key, c.size, before[i])
		}
		list = list[n:]
	}
}

func (f *feed[O, T]) put(c *compacted[T]) { f.hasPut(c, f.kind.Into.Put(c.key, c.value)) }

func (f *feed[O, T]) hasPut(c *compacted[T], effect Effect) {
	if effect == Added {
		f.resource.objects.Add(1)
	}
	if effect != Same && f.kind.Changed != nil {
		f.kind.Changed(c.key, c.value, true)
	}
}

func (f *feed[O, T]) drop(key string) {
	f.kept.drop(key, f.handlesOf(key))
	if existed := f.kind.Into.Drop(key); !existed {
		return
	}
	f.resource.objects.Add(-1)
	if f.kind.Changed != nil {
		var zero T
		f.kind.Changed(key, zero, false)
	}
}

func (f *feed[O, T]) applied() {
	if f.kind.Applied != nil {
		f.kind.Applied()
	}
}
