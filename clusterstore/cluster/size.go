package cluster

import (
	"reflect"
	"time"
	"unique"
	"unsafe"
)

// Each kind of object in a linked cluster has a size method, which estimates how much memory, in
// bytes, the cache uses for one object. The estimates count toward the memory cap (see
// [follow.Kind].Size). Data that only the local cluster caches is not counted, because the local
// cluster has no memory cap. TestBudget compares the sums of these estimates with the size of the
// heap.

const (
	// allocation is the estimated overhead, in bytes, of one allocation. On average over all
	// allocation sizes, the actual overhead is at most this estimate.
	allocation = 16
	// listedSize is the estimated memory, in bytes, for one pointer in a list, including a share of
	// the list's unused capacity.
	listedSize = 16
	// indexShare is the maximum number of slots per entry in a map that has just grown.
	indexShare = 16.0 / 7
	// uniqueSize is the overhead, in bytes, of each value to which a [unique.Handle] refers.
	uniqueSize = 160
)

// sizeof returns the size of a value of type T, excluding any memory to which the value refers.
func sizeof[T any]() int64 {
	var value T
	return int64(unsafe.Sizeof(value))
}

// indexEntry returns the memory used by one entry in a large map from object keys to values of type
// T.
func indexEntry[T any]() int64 { return mapEntry(sizeof[string]() + sizeof[T]()) }

// mapEntry returns the memory used by one entry in a large map, given the total size of its key and
// value.
func mapEntry(size int64) int64 { return int64(float64(size+1) * indexShare) }

// textSize returns the memory used by the bytes of a string, including the allocation overhead.
func textSize(text string) int64 {
	if text == "" {
		return 0
	}
	return allocation + int64(len(text))
}

// textsSize returns the memory used by a list of strings, including the bytes of the strings.
func textsSize(list []string) int64 {
	n := listSize[string](cap(list))
	for _, text := range list {
		n += textSize(text)
	}
	return n
}

// listSize returns the memory used by the elements of a list, excluding any memory to which the
// elements refer.
func listSize[T any](room int) int64 {
	if room == 0 {
		return 0
	}
	return allocation + int64(room)*sizeof[T]()
}

// valueSize returns the memory used by a map or by a value that an export hook returned. The size
// includes all memory to which the value refers. The value may consist of structs, pointers,
// slices, maps, strings and numbers, but must not contain cycles.
func valueSize(value any) int64 { return referredSize(reflect.ValueOf(value)) }

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

// Even a small map allocates room for eight entries.
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

func uniqueText(text unique.Handle[string]) int64 {
	return uniqueSize + sizeof[string]() + textSize(text.Value())
}

func unusableSize(object, reason string) int64 {
	if reason == "" {
		return 0
	}
	return indexEntry[string]() + textSize(object) + textSize(reason)
}
