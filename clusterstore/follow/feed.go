package follow

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"isthmus/clusterstore/decode"
)

// stage holds the objects of a list until the list is complete. For an object that equals its
// cached version, the stage holds only a hash of the key.
type stage[T any] struct {
	prints  prints
	begun   bool                     // at least one object of the list has been read
	objects map[string]*compacted[T] // by key
	same    map[print]struct{}
	refused map[string]string // reasons, by key; an earlier version may be in objects, in same or in the Store
}

func newStage[T any](p prints) *stage[T] {
	return &stage[T]{
		prints:  p,
		objects: make(map[string]*compacted[T]),
		same:    make(map[print]struct{}),
		refused: make(map[string]string),
	}
}

// stage.has reports whether the list contains an object with the given key, even if that object is
// refused.
func (s *stage[T]) has(key string) bool {
	_, listed := s.objects[key]
	_, refused := s.refused[key]
	_, same := s.same[s.prints.of(key)]
	return listed || refused || same
}

type compacted[T any] struct {
	key     string
	version string
	value   T
	ok      bool   // the object is cached
	refused string // why the object cannot be decoded; empty if it can
	updated int64  // result of lag.updated
	size    int64  // bytes that the memory cap counts, without shared values; zero without a cap
}

func named[T any](namespace, name, version string) *compacted[T] {
	return &compacted[T]{key: JoinKey(namespace, name), version: strings.Clone(version)}
}

type stored[T any] struct {
	value T
	there bool
}

// feed compacts each decoded object, and puts the compacted object into the kind's Store. Only the
// goroutine that executes Resource.run may call the methods of a feed.
type feed[O decode.Object, T any] struct {
	kind     Kind[O, T]
	resource *Resource
	account  *account  // nil without a memory cap
	stage    *stage[T] // objects of the list that is being read; nil if there is none
	prints   prints
}

func newFeed[O decode.Object, T any](k Kind[O, T], r *Resource) *feed[O, T] {
	return &feed[O, T]{kind: k, resource: r, prints: newPrints()}
}

func (f *feed[O, T]) useMemoryCap() {
	limit := f.resource.group.options.Memory
	if limit != nil && f.kind.Size == nil {
		panic("follow: kind " + f.kind.Name + " has no Size")
	}
	f.account = newAccount(limit, f.resource.name, f.prints)
}

// compact returns the compacted form of an object. For a refused object, the result contains only
// the name, the version and the reason.
func (f *feed[O, T]) compact(o O, refused *decode.Refused) *compacted[T] {
	if refused != nil {
		c := named[T](refused.Namespace, refused.Name, refused.ResourceVersion)
		c.refused = f.resource.refusedText(refused.Err)
		c.size = refusedSize(c.key, c.refused)
		return c
	}
	c := named[T](o.GetNamespace(), o.GetName(), o.GetResourceVersion())
	c.value, c.ok = f.kind.Compact(o)
	c.updated = f.resource.lag.updated(o)
	if c.ok && f.account != nil {
		c.size = objectSize + int64(len(c.key)) + f.kind.Size(c.value, c.key)
	}
	return c
}

func (f *feed[O, T]) open(ctx context.Context, opts metav1.ListOptions) (events, error) {
	from, err := f.kind.Source.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return compactedEvents[O, T]{f, from}, nil
}

type compactedEvents[O decode.Object, T any] struct {
	feed *feed[O, T]
	decode.Events[O]
}

func (e compactedEvents[O, T]) next() (out event, err error) {
	err = e.Next(func(in decode.Event[O]) error {
		var c *compacted[T]
		switch {
		case in.Refused == nil && (in.Type == watch.Deleted || in.Type == watch.Bookmark):
			c = named[T](in.Object.GetNamespace(), in.Object.GetName(), in.Object.GetResourceVersion())
		default:
			c = e.feed.compact(in.Object, in.Refused)
		}
		out.kind = in.Type
		out.object = c
		out.version = c.version
		return nil
	})
	return out, err
}

var errNoName = errors.New("the API server sent an object without a name: check that the URL points to an API server")

func (f *feed[O, T]) beginList() {
	f.abandonList()
	f.stage = newStage[T](f.prints)
}

// abandonList discards all staged objects. If at least one object of the abandoned list was
// received, the rate limit for listed objects applies to all later lists.
func (f *feed[O, T]) abandonList() {
	if f.stage != nil {
		f.resource.relists = f.resource.relists || f.stage.begun
	}
	f.stage = nil
	f.account.unstageAll()
}

func (f *feed[O, T]) stagePage(ctx context.Context, opts metav1.ListOptions) (metav1.ListMeta, int, error) {
	n := 0
	least := int64(0)
	list, err := f.kind.Source.List(ctx, opts, func(o O, refused *decode.Refused) error {
		c := f.compact(o, refused)
		if n++; n == 1 || c.size < least {
			least = c.size
		}
		if err := f.paceList(ctx); err != nil {
			return err
		}
		return f.stageObject(c)
	})
	if left := list.RemainingItemCount; err == nil && opts.Continue == "" && left != nil {
		err = f.account.announced(least, *left)
	}
	return list, n, err
}

func (f *feed[O, T]) skipPage(ctx context.Context, opts metav1.ListOptions) (metav1.ListMeta, int, error) {
	list, err := f.kind.Source.List(ctx, opts, func(O, *decode.Refused) error { return nil })
	return list, 0, err
}

// paceList limits the rate at which listed objects are read. The first list is not rate-limited.
// Later lists are rate-limited, because a server can make Isthmus list objects repeatedly.
func (f *feed[O, T]) paceList(ctx context.Context) error {
	f.stage.begun = true
	if !f.resource.relists {
		return nil
	}
	return f.resource.pace(ctx)
}

// stageObject stages an object in place of any earlier object with the same key. If the new object
// is refused, the earlier object remains staged.
func (f *feed[O, T]) stageObject(c *compacted[T]) error {
	if c.key == "" {
		return errNoName
	}
	s := f.stage
	delete(s.refused, c.key)
	if c.refused != "" {
		s.refused[c.key] = c.refused
		return f.account.stage(c.size, nil)
	}
	f.unstage(c.key)
	if !c.ok {
		return f.account.stageNone()
	}
	f.resource.lag.seen(c.updated)
	if f.same(f.stored(c.key), c) {
		if err := f.account.stageSame(c.key, f.handles(c.value)); err != nil {
			return err
		}
		s.same[s.prints.of(c.key)] = struct{}{}
		return nil
	}
	if err := f.account.stage(c.size, f.handles(c.value)); err != nil {
		return err
	}
	s.objects[c.key] = c
	return nil
}

func (f *feed[O, T]) unstage(key string) {
	s := f.stage
	if c, ok := s.objects[key]; ok {
		f.account.unstage(f.handles(c.value))
		delete(s.objects, key)
	}
	if _, same := s.same[s.prints.of(key)]; same {
		f.account.unstage(f.handlesOf(f.stored(key)))
		delete(s.same, s.prints.of(key))
	}
}

// commit puts the staged objects into the Store and drops all objects that are missing from the
// list.
func (f *feed[O, T]) commit() {
	staged := f.stage
	f.stage = nil
	f.replaceAll(staged)
	f.resource.relists = true
	f.resource.listed()
	f.applied()
	f.resource.markTried()
}

// replaceAll replaces the contents of the Store with the staged objects, and reports whether it
// dropped any object. New objects are added before old objects are dropped, because a new slice,
// Pod, Server or ServiceProfile may replace an old one.
//
// PrepareDrop first releases the addresses of the old objects, because an address could otherwise
// be assigned to two objects for a moment. If two objects share an address while a proxy looks it
// up, the proxy receives an ambiguous response, and does not repeat the lookup.
func (f *feed[O, T]) replaceAll(staged *stage[T]) (dropped bool) {
	f.account.commit()
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

// feed.clear empties the Store after the API server has stopped serving the kind.
func (f *feed[O, T]) clear() {
	if f.replaceAll(newStage[T](f.prints)) {
		f.applied()
	}
}

// apply applies an event to the Store. If the new version of an object is refused or exceeds the
// memory cap, the previous version remains in the cache. The result is an error if the memory cap
// would be exceeded, but not if an object is refused.
func (f *feed[O, T]) apply(e event) error {
	f.resource.group.event()
	err := f.applyEvent(e)
	f.applied()
	return err
}

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

func (f *feed[O, T]) store(c *compacted[T]) error {
	switch {
	case c.refused != "":
		if err := f.account.put(refusedKey(c.key), c.size, nil, nil); err != nil {
			return err
		}
		f.resource.noteRefused(c.key, c.refused)
		return nil
	case !c.ok:
		f.drop(c.key)
	default:
		before := f.stored(c.key)
		if err := f.account.put(c.key, c.size, f.handles(c.value), f.handlesOf(before)); err != nil {
			return err
		}
		f.kind.Into.Put(c.key, c.value)
		f.hasPut(c, before)
	}
	f.forgive(c.key)
	return nil
}

func (f *feed[O, T]) stored(key string) (s stored[T]) {
	s.value, s.there = f.kind.Into.Get(key)
	return s
}

func (f *feed[O, T]) same(s stored[T], c *compacted[T]) bool {
	return s.there && f.kind.Same(s.value, c.value)
}

// putAll puts listed objects into the Store in groups. Each group contains the objects that
// Kind.Together considers equal, and is put into the Store in one step. If Kind.Together is nil,
// each object is put into the Store separately.
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
		f.account.keep(c.key, c.size, f.handles(c.value), f.handlesOf(before[i]))
	}
}

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
	f.account.drop(key, f.handlesOf(before))
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

func (f *feed[O, T]) forgive(key string) {
	f.account.drop(refusedKey(key), nil)
	f.resource.noteRefused(key, "")
}

// keepRefused records the refused objects of a list. The account must already count the refused
// objects as staged, because keepRefused moves their sizes from the staged sum to the cached sum.
func (f *feed[O, T]) keepRefused(all map[string]string) {
	for key := range f.resource.setRefused(all) {
		f.account.drop(refusedKey(key), nil)
	}
	for key, why := range all {
		f.account.keep(refusedKey(key), refusedSize(key, why), nil, nil)
	}
	f.account.unstageAll()
}

func (f *feed[O, T]) handles(value T) handles {
	if f.account == nil || f.kind.Shared == nil {
		return nil
	}
	return func(yield func(any, int64) bool) { f.kind.Shared(value, yield) }
}

func (f *feed[O, T]) handlesOf(s stored[T]) handles {
	if !s.there {
		return nil
	}
	return f.handles(s.value)
}

// Feed passes objects to a Store as a list or watch would, so that tests do not need an API server.
// A Feed is not safe for concurrent use, and must not be used while its Group runs. A Feed panics
// if an object has the wrong type or exceeds the memory cap.
type Feed interface {
	Update(o any) // an added or changed object
	Delete(o any)
	Replace(list ...any) // all existing objects
}

func (f *feed[O, T]) Update(o any) { f.bring(watch.Modified, o) }

func (f *feed[O, T]) Delete(o any) { f.bring(watch.Deleted, o) }

func (f *feed[O, T]) bring(kind watch.EventType, o any) {
	if err := f.apply(event{kind: kind, object: f.compact(o.(O), nil)}); err != nil {
		panic(err)
	}
}

func (f *feed[O, T]) Replace(list ...any) {
	f.beginList()
	for _, o := range list {
		if err := f.stageObject(f.compact(o.(O), nil)); err != nil {
			panic(err)
		}
	}
	f.commit()
}
