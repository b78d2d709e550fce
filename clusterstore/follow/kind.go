package follow

import (
	"context"
	"maps"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore/decode"
)

// Kind describes how one kind of object is followed, and where it goes: of an object
// that the API has as an O, a T is kept. Its functions are called by one goroutine at a
// time, unless noted otherwise.
type Kind[O decode.Object, T any] struct {
	Name   string // of the resource, as in URLs
	Needed bool   // without it the Group is not synced
	Aside  bool   // what is served does not depend on it: the Group stays healthy if it is over budget
	// Unawaited makes the first sync end without waiting for the kind. It is for kinds that are not needed.
	Unawaited bool
	Source    decode.Source[O]
	Fields    string // a field selector; empty: all objects
	// Serves, if set, asks API discovery whether the API has the resource. An error
	// means that it is not known. It is for kinds that are not needed.
	Serves func(context.Context) (bool, error)

	// Compact returns what to keep of an object: nothing that refers to it, texts included.
	// Not ok: it is not kept, as if it did not exist. It is a pure function, and may be
	// called by two goroutines at a time.
	Compact func(O) (value T, ok bool)
	Into    Store[T]
	// Size returns how many bytes a value takes in the Store, without its key and without what Shared yields. It
	// includes what the Store holds for objects that the value names, whether these exist or not. It is
	// needed with Options.Memory, and must depend on its arguments alone.
	Size func(value T, key string) int64
	// Shared, if set, calls yield for each value that other objects may share, such as a [unique.Handle], and for
	// the bytes that it takes, as long as yield returns true. Such a value counts once against the memory cap,
	// however many objects refer to it.
	Shared func(value T, yield func(handle any, size int64) bool)
	// Same reports whether two values are the very same: to put one in place of the other would change nothing.
	Same func(a, b T) bool
	// Together, if set, orders objects: those of a list that are equal by it are put into
	// the Store, which must be a [Joint], in one step. So what has moved from one to
	// another is never in neither.
	Together func(a, b T) int
	// Changed, if set, is called after an object has been put into the Store and
	// was not Same, or, not ok, has been dropped from it.
	Changed func(key string, value T, ok bool)
	// Applied, if set, is called after a whole list or an event has been put into the Store.
	Applied func()
	// Report, if set, gets every failure, and nil each time that the objects
	// can be read. It may be called by several goroutines.
	Report func(error)
	// Lag, if set, observes the age of updates when they come, in seconds.
	Lag prometheus.Observer
}

// Joint is a Store into which several objects can be put in one step.
type Joint[T any] interface {
	// PutTogether calls f, which may call put for any number of objects, and nothing else of the Store.
	PutTogether(f func(put func(key string, value T)))
}

// Store keeps the objects of a Kind. Its methods are called by one goroutine at a time;
// keys are those of [JoinKey].
type Store[T any] interface {
	Put(key string, value T)
	// Get returns the value that was put last, unless that was dropped.
	Get(key string) (value T, ok bool)
	Drop(key string) // one that Get returns
	// PrepareDrop is called for each object that is in the Store and not in a new
	// list, before any object of that list is put. It is dropped after that.
	PrepareDrop(key string)
	// Keys iterates over the keys of all objects in the Store.
	Keys(yield func(key string) bool)
}

// JoinKey names an object within its kind: namespace/name, or the name alone. It is a copy.
func JoinKey(namespace, name string) string {
	if namespace == "" {
		return strings.Clone(name)
	}
	return namespace + "/" + name
}

// SplitKey undoes JoinKey: names have no slash.
func SplitKey(key string) (namespace, name string) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return "", key
	}
	return namespace, name
}

// Map is a [Store] that is a map, by key.
type Map[T any] map[string]T

// Put implements [Store].
func (m Map[T]) Put(key string, value T) { m[key] = value }

// Get implements [Store].
func (m Map[T]) Get(key string) (value T, ok bool) {
	value, ok = m[key]
	return value, ok
}

// Drop implements [Store].
func (m Map[T]) Drop(key string) { delete(m, key) }

// PrepareDrop implements [Store].
func (m Map[T]) PrepareDrop(string) {}

// Keys implements [Store].
func (m Map[T]) Keys(yield func(key string) bool) { maps.Keys(m)(yield) }
