package follow

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/decode"
)

// feed compacts each object, of type O, to a T as it is decoded, and puts that into the kind's
// Store. All its methods are called by the goroutine of the resource's run.
type feed[O decode.Object, T any] struct {
	kind     Kind[O, T]
	resource *Resource
	kept     *kept     // nil: without a budget
	stage    *stage[T] // of the list that is being read; nil: none
	prints   prints
}

func newFeed[O decode.Object, T any](k Kind[O, T], r *Resource) *feed[O, T] {
	return &feed[O, T]{kind: k, resource: r, prints: newPrints()}
}

func (f *feed[O, T]) useBudget() {
	limit := f.resource.group.options.Budget
	if limit != nil && f.kind.Size == nil {
		panic("follow: kind " + f.kind.Name + " has no Size")
	}
	f.kept = newKept(limit, f.resource.name, f.prints)
}

// commit puts the staged objects into the Store, and drops all others.
func (f *feed[O, T]) commit() {
	staged := f.stage
	f.stage = nil
	f.replaceAll(staged)
	f.resource.relists = true
	f.resource.listed()
	f.applied()
	f.resource.markTried()
}

// replaceAll puts what is staged into the Store, in place of all that is there, and reports whether that
// dropped anything. Objects are dropped last, so that their replacements (another slice, Pod, Server or
// ServiceProfile) are there before. But their addresses are released first (PrepareDrop): an address
// with two owners is ambiguous, and a proxy that got that answer does not ask again.
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
	if f.replaceAll(newStage[T](f.prints)) {
		f.applied()
	}
}

// apply does what an event says. An error is the budget's: what has been read stays. Of an object that is
// refused, what was kept stays.
func (f *feed[O, T]) apply(e event) error {
	f.resource.group.event()
	err := f.applyEvent(e)
	f.applied()
	return err
}

// applyEvent changes what an event is about.
func (f *feed[O, T]) applyEvent(e event) error {
	c := e.object.(*compacted[T])
	switch e.kind {
	case watch.Added:
		f.resource.lag.seen(c.updated)
		return f.store(c)
	case watch.Modified:
		f.resource.lag.observe(c.updated)
		return f.store(c)
	case watch.Deleted:
		f.drop(c.key)
		f.forgive(c.key)
	}
	return nil
}

// store puts, drops or refuses an object.
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
		before := f.stored(c.key)
		if err := f.kept.put(c.key, c.size, f.handles(c.value), f.handlesOf(before)); err != nil {
			return err
		}
		f.kind.Into.Put(c.key, c.value)
		f.hasPut(c, before)
	}
	f.forgive(c.key)
	return nil
}

// stored is what the Store has with a key.
type stored[T any] struct {
	value T
	there bool
}

func (f *feed[O, T]) stored(key string) (s stored[T]) {
	s.value, s.there = f.kind.Into.Get(key)
	return s
}

// same reports whether that is the very value of an object.
func (f *feed[O, T]) same(s stored[T], c *compacted[T]) bool {
	return s.there && f.kind.Same(s.value, c.value)
}

// putAll puts the objects of a list, those that belong together in one step.
func (f *feed[O, T]) putAll(list []*compacted[T]) {
	compare := func(a, b *compacted[T]) int { return 1 }
	if together := f.kind.Together; together != nil {
		compare = func(a, b *compacted[T]) int { return together(a.value, b.value) }
		slices.SortStableFunc(list, compare)
	}
	for len(list) > 0 {
		n := 1
		for n < len(list) && compare(list[0], list[n]) == 0 {
			n++
		}
		f.putStep(list[:n])
		list = list[n:]
	}
}

// putStep puts objects of a list in one step.
func (f *feed[O, T]) putStep(list []*compacted[T]) {
	before := make([]stored[T], len(list))
	for i, c := range list {
		before[i] = f.stored(c.key)
	}
	if f.kind.Together != nil {
		f.kind.Into.(Joint[T]).PutTogether(func(put func(string, T)) {
			for _, c := range list {
				put(c.key, c.value)
			}
		})
	} else {
		f.kind.Into.Put(list[0].key, list[0].value)
	}
	for i, c := range list {
		f.hasPut(c, before[i])
		f.kept.keep(c.key, c.size, f.handles(c.value), f.handlesOf(before[i]))
	}
}

// hasPut records that an object has been put in place of what was stored before.
func (f *feed[O, T]) hasPut(c *compacted[T], before stored[T]) {
	if !before.there {
		f.resource.objects.Add(1)
	}
	if f.kind.Changed != nil && !f.same(before, c) {
		f.kind.Changed(c.key, c.value, true)
	}
}

func (f *feed[O, T]) drop(key string) {
	before := f.stored(key)
	f.kept.drop(key, f.handlesOf(before))
	if !before.there {
		return
	}
	f.kind.Into.Drop(key)
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
