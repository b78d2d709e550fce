package decode

import (
	"bufio"
	"bytes"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
)

// custom is the format of custom resources, which API servers send in JSON. Of an object is decoded what T has a field for, by
// the UnmarshalJSON that types of package crd have; how much that can become is bounded by how many values the object has.
type custom[T any, O interface {
	*T
	Object
}] struct{ schema.GroupVersionKind }

func newCustom[T any, O interface {
	*T
	Object
}](a *api, v schema.GroupVersion, name, namespace, kind string) Source[O] {
	return &source[O]{newEndpoint(a, v, name, namespace), custom[T, O]{v.WithKind(kind)}, v.WithKind(kind)}
}

func (custom[T, O]) accept(string) string { return runtime.ContentTypeJSON }

// list reads a list, in which metadata and kind may come after the items.
func (c custom[T, O]) list(in *input, each func(data []byte, whole error) error) (all metav1.ListMeta, err error) {
	v := values{in}
	var version, kind string
	err = v.members(func(key string) (err error) {
		switch key {
		case "items":
			return v.elements('[', ']', func() error { return v.value(each) })
		case "metadata":
			return v.value(func(data []byte, whole error) error {
				if whole != nil || len(data) > maxStatus || utiljson.Unmarshal(data, &all) != nil {
					return errNoJSON
				}
				return nil
			})
		case "kind":
			kind, err = v.text()
		case "apiVersion":
			version, err = v.text()
		default:
			err = v.skip()
		}
		return err
	})
	if err == nil && (version != c.GroupVersion().String() || kind != c.Kind+"List") {
		err = errKind("a list", c.Kind+"List")
	}
	return all, err
}

// next reads an object with a type and then an object, as API servers send them in this order.
func (c custom[T, O]) next(in *input, f func(as watch.EventType, of schema.GroupVersionKind, data []byte, whole error) error) error {
	v := values{in}
	if _, err := v.first(); err != nil {
		return err // of which io.EOF is the regular end
	}
	var name string
	members, objects := 0, 0
	err := v.members(func(key string) (err error) {
		if members++; members > 10 {
			return errNoJSON
		}
		switch key {
		case "type":
			name, err = v.text()
		case "object":
			if objects++; objects > 1 {
				return errNoJSON
			}
			return v.value(func(data []byte, whole error) error {
				var o metav1.PartialObjectMetadata
				readJSONNames(data, &o)
				return f(eventType([]byte(name)), o.GroupVersionKind(), data, whole)
			})
		default:
			err = v.skip()
		}
		return err
	})
	if err == nil && objects == 0 {
		err = errNoJSON
	}
	return unexpected(err)
}

func (custom[T, O]) decode(data []byte, whole error, f func(O, error) error) error {
	o, err := O(new(T)), whole
	if err == nil {
		err = unmarshal(data, o)
	}
	if err != nil {
		o = new(T)
		readJSONNames(data, o)
	}
	return f(o, err)
}

func unmarshal(data []byte, o Object) error {
	if u, ok := o.(json.Unmarshaler); ok {
		return u.UnmarshalJSON(data)
	}
	return utiljson.Unmarshal(data, o)
}

// readJSONNames sets the kind, the names and the version of an object that may be cut off, as far as it can.
func readJSONNames(data []byte, o Object) {
	v := values{&input{Reader: bufio.NewReader(bytes.NewReader(data))}}
	var version, kind string
	defer func() { o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(version, kind)) }()
	_ = v.members(func(key string) (err error) {
		switch key {
		case "apiVersion":
			version, err = v.text()
		case "kind":
			kind, err = v.text()
		case "metadata":
			err = v.members(func(key string) error {
				set := map[string]func(string){"name": o.SetName, "namespace": o.SetNamespace, "resourceVersion": o.SetResourceVersion}[key]
				if set == nil {
					return v.skip()
				}
				text, err := v.text()
				set(text)
				return err
			})
		default:
			err = v.skip()
		}
		return err
	})
}

func (custom[T, O]) status(data []byte) error { return jsonStatus(data) }

func jsonStatus(data []byte) error {
	var status metav1.Status
	if utiljson.Unmarshal(data, &status) != nil || status.Kind != statusKind {
		return nil
	}
	return statusError(&status)
}
