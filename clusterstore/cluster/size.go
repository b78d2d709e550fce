package cluster

import (
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

// textMapSize is what a map of texts takes. A map has room for eight entries at least.
func textMapSize(all map[string]string) int64 {
	if all == nil {
		return 0
	}
	const header, smallest = 64, 8
	n := header + max(smallest*2*sizeof[string](), int64(len(all))*mapEntry(2*sizeof[string]()))
	for key, value := range all {
		n += textSize(key) + textSize(value)
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
