package follow

import (
	"context"
	"maps"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore/decode"
)

// Kind describes one kind of object, and the Store for it. The API has the object as an O, and the
// Store as a T. The functions are called by one goroutine at a time, unless noted otherwise.
type Kind[O decode.Object, T any] struct {
	Name   string // resource name, as in URLs
	Needed bool   // the Group is not synced without it
	Aside  bool   // may be over budget without making the Group unhealthy
	// Unawaited excludes the kind from the first sync. Unawaited must not be set for a needed kind.
	Unawaited bool
	Source    decode.Source[O]
	Fields    string // field selector; empty selects all objects
	// Serves, if set, asks API discovery whether the API has the resource. An error means that the
	// answer is unknown. Serves is for optional kinds.
	Serves func(context.Context) (bool, error)

	// Compact returns the value to cache for an object. The value must not refer to the object's
	// memory, including its strings. If ok is false, the object is treated as if it did not exist.
	// Compact must be a pure function, and two goroutines may call it at the same time.
	Compact func(O) (value T, ok bool)
	Into    Store[T]
	// Size returns the bytes that a value takes in the Store, without its key and its shared
	// values. The result includes what the Store holds for objects that the value names, existing
	// or not. Size is required with Options.Memory, and must depend on its arguments only.
	Size func(value T, key string) int64
	// Shared, if set, calls yield with each value that other objects may share, such as a
	// [unique.Handle], and with the value's size in bytes. Shared stops when yield returns false. A
	// shared value counts once against the memory cap, however many objects refer to it.
	Shared func(value T, yield func(handle any, size int64) bool)
	// Same reports whether replacing one value with the other would change nothing.
	Same func(a, b T) bool
	// Together, if set, compares objects. Objects of a list that compare equal are put into the
	// Store in one step, and the Store must be a [Joint]. So anything that moves between such
	// objects is always in one of them.
	Together func(a, b T) int
	// Changed, if set, is called after each change of the Store. If ok is true, the value is new or
	// was not Same as before. If ok is false, the object was dropped.
	Changed func(key string, value T, ok bool)
	// Applied, if set, is called after a whole list or an event has been put into the Store.
	Applied func()
	// Report, if set, is called with each failure, and with nil each time that the objects can be
	// read. Several goroutines may call it at the same time.
	Report func(error)
	// Lag, if set, observes the age of received updates, in seconds.
	Lag prometheus.Observer
}

// Joint is a Store that accepts several objects in one step.
type Joint[T any] interface {
	// PutTogether calls f. f may call put for any number of objects, and must not call other
	// methods of the Store.
	PutTogether(f func(put func(key string, value T)))
}

// Store holds the objects of a Kind. Only one goroutine at a time calls its methods. [JoinKey]
// returns the keys.
type Store[T any] interface {
	Put(key string, value T)
	// Get returns the value for a key.
	Get(key string) (value T, ok bool)
	Drop(key string) // called for existing keys only
	// PrepareDrop is called for each object of the Store that is missing in a new list, before any
	// object of that list is put. The object is dropped afterwards.
	PrepareDrop(key string)
	// Keys iterates over the keys of all objects in the Store.
	Keys(yield func(key string) bool)
}

// JoinKey returns the key of an object: namespace/name, or the name alone if namespace is empty.
// The key does not share memory with its arguments.
func JoinKey(namespace, name string) string {
	if namespace == "" {
		return strings.Clone(name)
	}
	return namespace + "/" + name
}

// SplitKey is the inverse of JoinKey. Names contain no slash.
func SplitKey(key string) (namespace, name string) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return "", key
	}
	return namespace, name
}

// Map implements [Store] with a map.
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
