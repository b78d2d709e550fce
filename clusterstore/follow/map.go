package follow

import "maps"

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
