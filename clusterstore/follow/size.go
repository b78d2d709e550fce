package follow

import (
	"net/netip"
	"reflect"
	"strings"
	"time"
)

// What is counted of the memory that objects take, in bytes. A test of clusterstore/cluster holds them against
// the heap.
const (
	// objectSize is what an object takes besides its key and its fields: its places in the Store and
	// its indexes.
	objectSize = 288
	// referenceSize is what an object takes that another one names, and that need not exist.
	referenceSize = 192
	// sharedSize is what a value takes that the process has once ([unique.Handle]), besides its
	// contents.
	sharedSize = 256
	// partSize is what anything takes that a value refers to, besides its contents.
	partSize = 16
	// sameSize is what an object of a list takes of which nothing is staged.
	sameSize = 32
	// sizeDepth is how deep values are looked into.
	sizeDepth = 16
)

// sizeOf returns what is counted for an object that names so many others, in bytes; without what handles stand
// for, if that is counted for all objects together.
func sizeOf(key string, value any, refers int, shares bool) int64 {
	v := reflect.ValueOf(value)
	size := behind(v, sizeDepth, !shares)
	if v.IsValid() {
		size += int64(v.Type().Size())
	}
	return objectSize + int64(len(key)) + size + referenceSize*int64(refers)
}

// Values of these types refer to what the process has once.
var timeType, addrType = reflect.TypeFor[time.Time](), reflect.TypeFor[netip.Addr]()

// behind returns how many bytes a value refers to, besides its own; with or without what handles stand for.
func behind(v reflect.Value, depth int, handles bool) (size int64) {
	if depth == 0 || !v.IsValid() {
		return 0
	}
	switch v.Kind() {
	case reflect.String:
		if v.Len() > 0 {
			size = partSize + int64(v.Len())
		}
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return partSize + int64(v.Elem().Type().Size()) + behind(v.Elem(), depth-1, handles)
	case reflect.Struct:
		t := v.Type()
		switch {
		case t == timeType || t == addrType:
			return 0
		case t.PkgPath() == "unique" && strings.HasPrefix(t.Name(), "Handle["):
			if !handles {
				return 0
			}
			size = sharedSize
		}
		for i := range v.NumField() {
			size += behind(v.Field(i), depth-1, handles)
		}
	case reflect.Slice:
		if size = int64(v.Cap()) * int64(v.Type().Elem().Size()); size > 0 {
			size += partSize
		}
		fallthrough
	case reflect.Array:
		if flat(v.Type().Elem().Kind()) {
			return size
		}
		for i := range v.Len() {
			size += behind(v.Index(i), depth-1, handles)
		}
	case reflect.Map:
		each := int64(v.Type().Key().Size() + v.Type().Elem().Size())
		for i := v.MapRange(); i.Next(); {
			size += 2*each + behind(i.Key(), depth-1, handles) + behind(i.Value(), depth-1, handles)
		}
	}
	return size
}

// flat reports whether values of a kind refer to nothing.
func flat(k reflect.Kind) bool { return k >= reflect.Bool && k <= reflect.Complex128 }
