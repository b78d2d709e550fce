package follow

import (
	"net/netip"
	"reflect"
	"time"
)

const (
	// objectSize is what an object takes besides its key and its fields, in bytes: its
	// places in the Store and its indexes.
	objectSize = 256
	// indexFactor stands for what refers to the parts of an object, such as indexes of
	// addresses, and placeholders of objects that it names.
	indexFactor = 4
	// sizeDepth is how deep values are looked into.
	sizeDepth = 16
)

// sizeOf estimates what is kept of an object, in bytes. What objects share counts for each
// of them: a cluster decides itself whether its objects are alike.
func sizeOf(key string, value any) int64 {
	v := reflect.ValueOf(value)
	size := behind(v, sizeDepth)
	if v.IsValid() {
		size += int64(v.Type().Size())
	}
	return objectSize + int64(len(key)) + indexFactor*size
}

// Values of these types refer to what the process has once.
var timeType, addrType = reflect.TypeFor[time.Time](), reflect.TypeFor[netip.Addr]()

// behind returns how many bytes a value refers to, besides its own.
func behind(v reflect.Value, depth int) (size int64) {
	if depth == 0 || !v.IsValid() {
		return 0
	}
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return int64(v.Elem().Type().Size()) + behind(v.Elem(), depth-1)
	case reflect.Struct:
		if t := v.Type(); t == timeType || t == addrType {
			return 0
		}
		for i := range v.NumField() {
			size += behind(v.Field(i), depth-1)
		}
	case reflect.Slice:
		size = int64(v.Cap()) * int64(v.Type().Elem().Size())
		fallthrough
	case reflect.Array:
		if flat(v.Type().Elem().Kind()) {
			return size
		}
		for i := range v.Len() {
			size += behind(v.Index(i), depth-1)
		}
	case reflect.Map:
		each := int64(v.Type().Key().Size() + v.Type().Elem().Size())
		for i := v.MapRange(); i.Next(); {
			size += 2*each + behind(i.Key(), depth-1) + behind(i.Value(), depth-1)
		}
	}
	return size
}

// flat reports whether values of a kind refer to nothing.
func flat(k reflect.Kind) bool { return k >= reflect.Bool && k <= reflect.Complex128 }
