package follow

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// feed is the store that a resource's reflector fills: it compacts each object, of
// type O, to a T and puts that into the kind's Store. All its methods are called by
// the reflector, one at a time.
type feed[O runtime.Object, T any] struct {
	kind     Kind[O, T]
	resource *Resource
	kept     *kept // nil: without a budget
}

// compacted is an object on its way from an answer of the API into the Store. It
// implements runtime.Object, so that reflectors can hold it: the list that they
// collect is small from the start.
type compacted[T any] struct {
	key     string
	value   T
	ok      bool
	updated int64 // as lag.updated returns it
	size    int64 // as sizeOf estimates it; 0: without a budget
}

func (c *compacted[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (c *compacted[T]) DeepCopyObject() runtime.Object   { return c } // it is never written
func (c *compacted[T]) GetObjectMeta() metav1.Object {
	namespace, name := SplitKey(c.key)
	return &metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func (f *feed[O, T]) convert(o any) (*compacted[T], error) {
	switch o := o.(type) {
	case *compacted[T]:
		return o, nil
	case O:
		m, err := meta.Accessor(o)
		if err != nil {
			return nil, errUnexpectedType(o)
		}
		value, ok := f.kind.Compact(o)
		key := JoinKey(m.GetNamespace(), m.GetName())
		return &compacted[T]{key: key, value: value, ok: ok, updated: f.resource.lag.updated(m), size: f.kept.sizeOf(key, value)}, nil
	}
	return nil, errUnexpectedType(o)
}

func (f *feed[O, T]) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		c, err := f.convert(o)
		if err != nil {
			return c, err
		}
		if err := f.kept.list(c.size); err != nil {
			f.exceed(err)
			return &compacted[T]{}, nil // the same for all that comes before the watch has ended
		}
		return c, nil
	}
}

func (f *feed[O, T]) useBudget() { f.kept = newKept(f.resource.group.options.Budget, f.resource.name) }

func (f *feed[O, T]) beginList() { f.kept.beginList() }

// exceed ends the watch: its objects are beyond the budget.
func (f *feed[O, T]) exceed(err error) {
	f.resource.exceed(err)
	f.resource.stopWatch()
}

// compactList compacts a page of a list.
func (f *feed[O, T]) compactList(page runtime.Object) (*metainternal.List, error) {
	from, err := meta.ListAccessor(page)
	if err != nil {
		return nil, errUnexpectedType(page)
	}
	list := &metainternal.List{ListMeta: metav1.ListMeta{
		ResourceVersion:    from.GetResourceVersion(),
		Continue:           from.GetContinue(),
		RemainingItemCount: from.GetRemainingItemCount(),
	}}
	err = meta.EachListItem(page, func(o runtime.Object) error {
		c, err := f.convert(o)
		if err != nil {
			return err
		}
		if err := f.kept.list(c.size); err != nil {
			f.resource.exceed(err)
			return err
		}
		list.Items = append(list.Items, c)
		return nil
	})
	return list, err
}

// Replace puts a whole list into the Store and drops the objects that are not in it.
// They are dropped last, so that their replacements (another slice, Pod, Server or
// ServiceProfile) are there before. But their addresses are released first
// (PrepareDrop): an address with two owners is ambiguous, and a proxy that got that
// answer does not ask again.
func (f *feed[O, T]) Replace(list []any, _ string) error {
	if over := f.resource.over.now.Load(); over != nil {
		// The list is not whole, or what comes after it is refused. A reflector does not
		// stop the watch by which it came.
		f.resource.stopWatch()
		return *over
	}
	listed := make(map[string]struct{}, len(list))
	var present []*compacted[T]
	for _, o := range list {
		c, err := f.convert(o)
		if err != nil {
			return err
		}
		f.resource.lag.seen(c.updated)
		if c.ok {
			listed[c.key] = struct{}{}
			present = append(present, c)
		}
	}
	gone := f.unlisted(listed)
	for _, key := range gone {
		f.kind.Into.PrepareDrop(key)
	}
	f.putAll(present)
	for _, key := range gone {
		f.drop(key)
	}
	f.kept.replace(len(present), func(yield func(string, int64) bool) {
		for _, c := range present {
			if !yield(c.key, c.size) {
				return
			}
		}
	})
	f.resource.listed()
	f.applied()
	f.resource.markTried()
	return nil
}

// clear drops all objects: the API has none of the kind.
func (f *feed[O, T]) clear() {
	gone := f.unlisted(nil)
	if len(gone) == 0 {
		return
	}
	for _, key := range gone {
		f.kind.Into.PrepareDrop(key)
	}
	for _, key := range gone {
		f.drop(key)
	}
	f.applied()
}

// unlisted returns the keys of the Store that are not in the list.
func (f *feed[O, T]) unlisted(listed map[string]struct{}) (gone []string) {
	for key := range f.kind.Into.Keys {
		if _, ok := listed[key]; !ok {
			gone = append(gone, key)
		}
	}
	return gone
}

func (f *feed[O, T]) Add(o any) error { return f.apply(o, f.resource.lag.seen) }

func (f *feed[O, T]) Update(o any) error { return f.apply(o, f.resource.lag.observe) }

// apply puts an object into the Store, or drops it if it is not to be kept. Before
// that, measure gets the time of its update.
func (f *feed[O, T]) apply(o any, measure func(updated int64)) error {
	f.resource.group.event()
	c, err := f.convert(o)
	if err != nil {
		return err
	}
	measure(c.updated)
	if c.ok {
		if err := f.kept.put(c.key, c.size); err != nil {
			f.exceed(err) // and what has been read stays
			return nil
		}
		f.put(c)
	} else {
		f.drop(c.key)
	}
	f.applied()
	return nil
}

func (f *feed[O, T]) Delete(o any) error {
	f.resource.group.event()
	c, err := f.convert(o)
	if err != nil {
		return err
	}
	f.drop(c.key)
	f.applied()
	return nil
}

// Bookmark shows only that the watch is alive.
func (f *feed[O, T]) Bookmark(string) error { f.resource.group.event(); return nil }

func (f *feed[O, T]) Resync() error { return nil }

// putAll puts the objects of a list, those that belong together in one step.
func (f *feed[O, T]) putAll(list []*compacted[T]) {
	together := f.kind.Together
	if together == nil {
		for _, c := range list {
			f.put(c)
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
		effects := make([]Effect, n)
		f.kind.Into.(Joint[T]).PutTogether(func(put func(string, T) Effect) {
			for i, c := range list[:n] {
				effects[i] = put(c.key, c.value)
			}
		})
		for i, c := range list[:n] {
			f.hasPut(c, effects[i])
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
	f.kept.drop(key)
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
