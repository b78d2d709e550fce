package clusterstore

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// feed takes the objects of type O that a reflector delivers, makes a small T of
// each, and hands them to the state. All its methods are called by the
// reflector, one at a time.
type feed[O runtime.Object, T any] struct {
	state    *state
	resource *resource
	// compact is a pure function. Not ok: the object is none of our concern,
	// which is as good as its absence.
	compact func(O) (value T, ok bool)
	kind    kind[T]
	// changed, if set, is called after the state has changed; not ok: gone.
	changed func(key string, value T, ok bool)
}

// kind is how objects of one kind get into the state. state.mu is held.
type kind[T any] struct {
	put  func(key string, value T) effect
	drop func(key string) (existed bool)
	// leave, if set, takes the addresses from an object that is there.
	leave func(key string)
	keys  func(yield func(key string) bool)
}

// effect is what came of putting an object into the state.
type effect uint8

const (
	same effect = iota
	replaced
	added
)

// compacted is an object on its way from an answer of the API into the state. It
// passes as an API object, so that reflectors can carry it: what they gather of
// a list is small from the start.
type compacted[T any] struct {
	key     string
	value   T
	ok      bool
	updated int64 // as lag has it
}

func (c *compacted[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (c *compacted[T]) DeepCopyObject() runtime.Object   { return c } // nobody writes it
func (c *compacted[T]) GetObjectMeta() metav1.Object {
	namespace, name := splitKey(c.key)
	return &metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func (f *feed[O, T]) convert(o any) (*compacted[T], error) {
	switch o := o.(type) {
	case *compacted[T]:
		return o, nil
	case O:
		m, err := meta.Accessor(o)
		if err != nil {
			return nil, errType(o)
		}
		value, ok := f.compact(o)
		return &compacted[T]{key: joinKey(m.GetNamespace(), m.GetName()), value: value, ok: ok, updated: f.resource.lag.updated(m)}, nil
	}
	return nil, errType(o)
}

func (f *feed[O, T]) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		f.resource.progress()
		return f.convert(o)
	}
}

// compactList makes a page of a list small.
func (f *feed[O, T]) compactList(page runtime.Object) (runtime.Object, error) {
	from, err := meta.ListAccessor(page)
	if err != nil {
		return nil, errType(page)
	}
	list := &metainternal.List{ListMeta: metav1.ListMeta{
		ResourceVersion:    from.GetResourceVersion(),
		Continue:           from.GetContinue(),
		RemainingItemCount: from.GetRemainingItemCount(),
	}}
	err = meta.EachListItem(page, func(o runtime.Object) error {
		c, err := f.convert(o)
		if err == nil {
			list.Items = append(list.Items, c)
		}
		return err
	})
	return list, err
}

// Replace takes over a whole list: what is not in it is gone. That is dropped
// last, so that what takes its place is there before: another slice, Pod, Server
// or ServiceProfile. But its addresses are taken from it first: while two have
// one, nobody has it, and proxies that are told so don't ask again.
func (f *feed[O, T]) Replace(list []any, _ string) error {
	listed := make(map[string]struct{}, len(list))
	var present []*compacted[T]
	for _, o := range list {
		c, err := f.convert(o)
		if err != nil {
			return err
		}
		f.resource.lag.listed(c.updated)
		if c.ok {
			listed[c.key] = struct{}{}
			present = append(present, c)
		}
	}
	gone := f.unlisted(listed)
	f.leave(gone)
	for _, c := range present {
		f.put(c)
	}
	for _, key := range gone {
		f.drop(key)
	}
	f.resource.listed()
	return nil
}

// unlisted returns the keys of the state that are not in the list.
func (f *feed[O, T]) unlisted(listed map[string]struct{}) (gone []string) {
	f.state.mu.RLock()
	defer f.state.mu.RUnlock()
	for key := range f.kind.keys {
		if _, ok := listed[key]; !ok {
			gone = append(gone, key)
		}
	}
	return gone
}

func (f *feed[O, T]) Add(o any) error { return f.take(o, f.resource.lag.listed) }

func (f *feed[O, T]) Update(o any) error { return f.take(o, f.resource.lag.update) }

// take takes over an object, after note has been told when it was updated.
func (f *feed[O, T]) take(o any, note func(updated int64)) error {
	f.resource.health.event()
	c, err := f.convert(o)
	if err != nil {
		return err
	}
	note(c.updated)
	if c.ok {
		f.put(c)
	} else {
		f.drop(c.key)
	}
	return nil
}

func (f *feed[O, T]) Delete(o any) error {
	f.resource.health.event()
	c, err := f.convert(o)
	if err != nil {
		return err
	}
	f.drop(c.key)
	return nil
}

// Bookmark is a sign of life and nothing else.
func (f *feed[O, T]) Bookmark(string) error { f.resource.health.event(); return nil }

func (f *feed[O, T]) Resync() error { return nil }

func (f *feed[O, T]) put(c *compacted[T]) {
	f.state.begin()
	effect := f.kind.put(c.key, c.value)
	f.state.mu.Unlock()
	if effect == added {
		f.resource.objects.Add(1)
	}
	if effect != same && f.changed != nil {
		f.changed(c.key, c.value, true)
	}
}

func (f *feed[O, T]) leave(keys []string) {
	if f.kind.leave == nil {
		return
	}
	for _, key := range keys {
		f.state.begin()
		f.kind.leave(key)
		f.state.mu.Unlock()
	}
}

func (f *feed[O, T]) drop(key string) {
	f.state.begin()
	existed := f.kind.drop(key)
	f.state.mu.Unlock()
	if !existed {
		return
	}
	f.resource.objects.Add(-1)
	if f.changed != nil {
		var none T
		f.changed(key, none, false)
	}
}

// joinKey names an object within its kind: namespace/name, or the name alone.
func joinKey(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// splitKey undoes joinKey: names have no slash.
func splitKey(key string) (namespace, name string) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return "", key
	}
	return namespace, name
}
