package follow

import (
	"context"
	"maps"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"isthmus/clusterstore/decode"
)

// Kind describes one kind of object and the Store that caches it. O is the type of a decoded
// object, and T is the type of a cached value. Unless noted otherwise, only one goroutine at a time
// calls the functions of a Kind.
type Kind[O decode.Object, T any] struct {
	Name   string // resource name, as in URLs
	Needed bool   // the Group is not synced without it
	Aside  bool   // may be over budget without making the Group unhealthy
	// If Unawaited is true, the first sync does not wait for the kind. Set Unawaited only for
	// optional kinds.
	Unawaited bool
	Source    decode.Source[O]
	Fields    string // field selector; empty selects all objects
	// Serves, if set, reports whether API discovery lists the resource. If API discovery fails,
	// Serves returns an error. Only optional kinds need Serves.
	Serves func(context.Context) (bool, error)

	// Compact returns the value to cache for an object. The cached value must not share memory with
	// the object, not even strings. If ok is false, the Resource treats the object as if it did not
	// exist. Compact must be a pure function, and two goroutines may call it at the same time.
	Compact func(O) (value T, ok bool)
	Into    Store[T]
	// Size returns the number of bytes that a value uses in the Store, excluding its key and the
	// parts that Shared yields. If the Store must hold additional data because of the value, such
	// as an entry for the owner of a Pod, the size includes that data. The result of Size must
	// depend only on the arguments. Size is required if Options.Memory is set.
	Size func(value T, key string) int64
	// Shared, if set, yields the shared parts of a value. A shared part is memory that several
	// cached values may refer to. The handle, such as a [unique.Handle], identifies the part, and
	// the size is in bytes. A shared part counts once against the memory cap, no matter how many
	// objects refer to the part.
	Shared func(value T, yield func(handle any, size int64) bool)
	// Same reports whether two values are equivalent. An update from one value to an equivalent
	// value may be ignored.
	Same func(a, b T) bool
	// Together, if set, compares two values, as [cmp.Compare] does. Listed objects whose values are
	// equal according to Together are put into the Store together, in one step. For example, if the
	// slices of a Service are put into the Store in one step, an endpoint that moves from one slice
	// to another is never missing from the Store. The Store must implement [Joint].
	Together func(a, b T) int
	// Changed, if set, is called after each change to the Store. If ok is true, the value is new,
	// or differs from the previous value according to Same. If ok is false, the object was dropped.
	Changed func(key string, value T, ok bool)
	// Applied, if set, is called each time that a complete list or an event has been applied to the
	// Store.
	Applied func()
	// Report, if set, is called with the error after each failure, and with nil after each success.
	// Several goroutines may call Report at the same time.
	Report func(error)
	// Lag, if set, is the metric for the age of received updates, in seconds.
	Lag prometheus.Observer
}

// Joint is a Store that accepts several objects in one step.
type Joint[T any] interface {
	// PutTogether calls f with the function put, which adds or replaces one value. When f returns,
	// all values that were passed to put appear in the Store in one step. The function f must not
	// call other methods of the Store.
	PutTogether(f func(put func(key string, value T)))
}

// Store holds the objects of a Kind under the keys that [JoinKey] returns. Only one goroutine at a
// time calls the methods of a Store.
type Store[T any] interface {
	Put(key string, value T)
	Get(key string) (value T, ok bool)
	Drop(key string) // called for existing keys only
	// PrepareDrop is called for each cached object that is missing from a new list, before Put is
	// called for any listed object. Drop is called afterwards.
	PrepareDrop(key string)
	Keys(yield func(key string) bool)
}

// JoinKey returns the key of an object: namespace/name, or the name alone if namespace is empty.
// The key does not share memory with the arguments.
func JoinKey(namespace, name string) string {
	if namespace == "" {
		return strings.Clone(name)
	}
	return namespace + "/" + name
}

// SplitKey is the inverse of JoinKey.
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
