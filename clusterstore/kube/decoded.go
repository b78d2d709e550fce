package kube

import (
	"bytes"
	"fmt"
	"reflect"

	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"isthmus/clusterstore/budget"
	"isthmus/clusterstore/typed"
)

const (
	// maxObject is how much memory one object may take once it is decoded, in bytes. etcd
	// takes objects of 1.5 MiB: a Pod of that size with 20,000 containers takes half of it.
	maxObject = 32 << 20
	// measuredFrom is the size from which answers and events are measured, in bytes. Less
	// than that never takes much.
	measuredFrom = 1 << 10
)

// protobufPrefix begins every answer in protobuf, and no JSON.
var protobufPrefix = []byte("k8s\x00")

// schemes have the kinds that clients decode.
var schemes = []*runtime.Scheme{typed.Scheme, customScheme, metainternal.Scheme}

// measureAnswer returns how many bytes an answer takes at most while it is decoded, in
// addition to its own. A few bytes can stand for a large struct of Go: two are an empty
// Pod of 1.2 kB. It fails if one object is larger than maxEvent, or than maxObject once it
// is decoded. what is for errors.
func measureAnswer(data []byte, what string) (int64, error) {
	if len(data) < measuredFrom {
		return 0, nil
	}
	kind, raw, walk := interpret(data)
	if kind.Kind == "" || kind.Version == "" {
		// client-go would decode it as what was requested.
		return 0, fmt.Errorf("%s has no kind or version: check that the server is an API server", what)
	}
	return measureKind(kind, raw, walk, what)
}

// measureEvent is measureAnswer for an event of a watch, in JSON or as the body of a frame
// of protobuf.
func measureEvent(data []byte, protobuf bool, what string) (int64, error) {
	if len(data) < measuredFrom {
		return 0, nil
	}
	var event metav1.WatchEvent
	if protobuf {
		if event.Unmarshal(data) != nil {
			return 0, nil // client-go decodes no more of it than that
		}
	} else {
		if kind, _, _ := interpret(data); kind.Kind != "" && kind.Kind != "WatchEvent" {
			// which client-go would decode
			return 0, fmt.Errorf("%s is a %s instead: check that the server is an API server", what, Clip(kind.Kind))
		}
		if utiljson.Unmarshal(data, &event) != nil {
			return 0, nil
		}
	}
	kind, raw, walk := interpret(event.Object.Raw)
	return measureKind(kind, raw, walk, what)
}

// interpret finds out what client-go will decode: the kind, the encoded object, and what
// measures it.
func interpret(data []byte) (schema.GroupVersionKind, []byte, walkFunc) {
	if bytes.HasPrefix(data, protobufPrefix) {
		kind, raw := unwrap(data[len(protobufPrefix):])
		return kind, raw, measureProtobuf
	}
	return interpretJSON(data), data, measureJSON
}

// unwrap returns what an encoded [runtime.Unknown] has, as its Unmarshal does, but without a
// copy. Of what that refuses, client-go decodes nothing.
func unwrap(data []byte) (kind schema.GroupVersionKind, raw []byte) {
	var object runtime.Unknown
	eachField(data, func(number int32, value []byte) {
		switch number {
		case 1:
			_ = object.TypeMeta.Unmarshal(value)
		case 2:
			raw = value
		}
	})
	return object.GroupVersionKind(), raw
}

// walkFunc adds to m what a value of a type takes besides its own size.
type walkFunc func(m *measure, t reflect.Type, data []byte)

// measureKind measures an object of a kind.
func measureKind(kind schema.GroupVersionKind, data []byte, walk walkFunc, what string) (size int64, err error) {
	types := []reflect.Type{partialList} // the client of metadata decodes kinds that it does not know as this one
	for _, s := range schemes {
		if o, err := s.New(kind); err == nil {
			types = append(types, reflect.TypeOf(o).Elem())
		}
	}
	for _, t := range types {
		m := measure{items: itemsOf(t)}
		walk(&m, t, data)
		size = max(size, m.size)
		if err == nil && m.quantity != "" {
			err = fmt.Errorf("%s has a quantity of %d characters or a large exponent, which no API server sends", what, len(m.quantity))
		}
		if m.items == nil {
			m.item, m.encoded = m.size, len(data)
		}
		if err == nil && m.encoded > maxEvent {
			err = budget.Errorf("an object of %s is larger than %d MiB", what, maxEvent>>20)
		}
		if err == nil && m.item > maxObject {
			err = budget.Errorf("an object of %s would take more than %d MiB once it is decoded", what, maxObject>>20)
		}
	}
	return size, err
}

var partialList = reflect.TypeFor[metav1.PartialObjectMetadataList]()

// itemsOf returns the type of the items of a list; nil: it is no list.
func itemsOf(t reflect.Type) reflect.Type {
	if items, ok := t.FieldByName("Items"); ok && items.Type.Kind() == reflect.Slice {
		return items.Type.Elem()
	}
	return nil
}
