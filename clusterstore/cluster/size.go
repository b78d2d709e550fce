package cluster

import (
	"reflect"
	"time"
	"unique"
	"unsafe"
)

// Each kind of object that a linked cluster has returns what the state takes for one of them, in bytes, for the
// memory cap: see [follow.Kind].Size. The method of a kind is in the file of the kind, and adds up the functions
// below. What only the local cluster has is left out, since it has no memory cap. TestBudget compares the sums with the
// heap.

const (
	// allocation is what an allocation of its own takes at most beyond its contents, on average over its size.
	allocation = 16
	// listedSize is what a pointer takes in a list that grows as objects refer to each other.
	listedSize = 16
	// indexShare is how many places a map has for each entry at most, after it has grown.
	indexShare = 16.0 / 7
	// uniqueSize is what a value takes that the process has once ([unique.Handle]), besides its contents.
	uniqueSize = 160
)

// sizeof returns the size of a type's values, without what they refer to.
func sizeof[T any]() int64 {
	var value T
	return int64(unsafe.Sizeof(value))
}

// indexEntry is what an entry takes in a large map from keys of objects to values of a type.
func indexEntry[T any]() int64 { return mapEntry(sizeof[string]() + sizeof[T]()) }

// mapEntry is what an entry of so many bytes takes in a large map.
func mapEntry(size int64) int64 { return int64(float64(size+1) * indexShare) }

// textSize is what a text refers to.
func textSize(text string) int64 {
	if text == "" {
		return 0
	}
	return allocation + int64(len(text))
}

// textsSize is what a list of texts refers to.
func textsSize(list []string) int64 {
	n := listSize[string](cap(list))
	for _, text := range list {
		n += textSize(text)
	}
	return n
}

// listSize is what a list with room for that many values refers to, without what these refer to.
func listSize[T any](room int) int64 {
	if room == 0 {
		return 0
	}
	return allocation + int64(room)*sizeof[T]()
}

// valueSize is what a map, or a value that a hook has returned, takes with all that it refers to. The value is made of
// structs, pointers, slices, maps, texts and numbers, and has no cycles.
func valueSize(value any) int64 { return referredSize(reflect.ValueOf(value)) }

// referredSize is what a value refers to, without the value itself.
func referredSize(v reflect.Value) (n int64) {
	switch v.Kind() {
	case reflect.String:
		return textSize(v.String())
	case reflect.Pointer:
		if !v.IsNil() {
			n = allocation + int64(v.Type().Elem().Size()) + referredSize(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return 0 // refers to a time zone, which all values share
		}
		for i := range v.NumField() {
			n += referredSize(v.Field(i))
		}
	case reflect.Slice:
		if v.Cap() > 0 {
			n = allocation + int64(v.Cap())*int64(v.Type().Elem().Size())
		}
		for i := range v.Len() {
			n += referredSize(v.Index(i))
		}
	case reflect.Map:
		n = referredMapSize(v)
	}
	return n
}

// referredMapSize is what a map takes. A map has room for eight entries at least.
func referredMapSize(v reflect.Value) int64 {
	if v.IsNil() {
		return 0
	}
	const header, smallest = 64, 8
	entry := int64(v.Type().Key().Size() + v.Type().Elem().Size())
	n := header + max(smallest*entry, int64(v.Len())*mapEntry(entry))
	for entries := v.MapRange(); entries.Next(); {
		n += referredSize(entries.Key()) + referredSize(entries.Value())
	}
	return n
}

// uniqueText is what a text takes that the process has once.
func uniqueText(text unique.Handle[string]) int64 {
	return uniqueSize + sizeof[string]() + textSize(text.Value())
}

// unusableSize is what the state takes for the reason why an object can't be used. Without a reason, it is zero.
func unusableSize(object, reason string) int64 {
	if reason == "" {
		return 0
	}
	return indexEntry[string]() + textSize(object) + textSize(reason)
}
