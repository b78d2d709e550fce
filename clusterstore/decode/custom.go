package decode

import (
	"cmp"
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
	v := in.values()
	defer v.end()
	if t, err := v.token(); err != nil || t != json.Delim('{') {
		return all, unexpected(cmp.Or(err, errNoJSON))
	}
	var of metav1.TypeMeta
	for v.more() {
		key, err := v.token()
		switch {
		case err != nil:
		case key == "items":
			err = v.elements(each)
		case key == "kind":
			err = v.next(&of.Kind)
		case key == "apiVersion":
			err = v.next(&of.APIVersion)
		default:
			if err = v.next(&v.raw); err == nil && key == "metadata" && (len(v.raw) > maxStatus || utiljson.Unmarshal(v.raw, &all) != nil) {
				err = errNoJSON
			}
		}
		if err != nil {
			return all, unexpected(err)
		}
	}
	if _, err = v.token(); err == nil && (of.APIVersion != c.GroupVersion().String() || of.Kind != c.Kind+"List") {
		err = errKind("a list", c.Kind+"List")
	}
	return all, unexpected(err)
}

// next reads an object with a type and an object. Its decoder is its own, since it keeps the memory that the largest value took.
func (c custom[T, O]) next(in *input, f func(as watch.EventType, of schema.GroupVersionKind, data []byte, whole error) error) error {
	v := in.values()
	defer v.end()
	var event struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := v.next(&event); err != nil {
		return err // of which io.EOF is the regular end
	}
	if event.Object == nil {
		return errNoJSON
	}
	return f(eventType([]byte(event.Type)), namesOf(event.Object).GroupVersionKind(), event.Object, countable(event.Object))
}

func (custom[T, O]) decode(data []byte, whole error, f func(O, error) error) error {
	o, err := O(new(T)), whole
	if err == nil {
		err = unmarshal(data, o)
	}
	if err != nil {
		names := namesOf(data)
		o = new(T)
		o.SetNamespace(names.Metadata.Namespace)
		o.SetName(names.Metadata.Name)
		o.SetResourceVersion(names.Metadata.ResourceVersion)
	}
	return f(o, err)
}

func unmarshal(data []byte, o Object) error {
	if u, ok := o.(json.Unmarshaler); ok {
		return u.UnmarshalJSON(data)
	}
	return utiljson.Unmarshal(data, o)
}

// names are all that is decoded of an object that is refused, or whose kind is not known yet.
type names struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name            string `json:"name"`
		Namespace       string `json:"namespace"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

// namesOf reads them as far as they can be read.
func namesOf(data []byte) *names {
	var n names
	_ = utiljson.Unmarshal(data, &n) // goes on after what is of the wrong form
	return &n
}

func (custom[T, O]) status(data []byte) error { return jsonStatus(data) }

func jsonStatus(data []byte) error {
	var status metav1.Status
	if utiljson.Unmarshal(data, &status) != nil || status.Kind != statusKind {
		return nil
	}
	return statusError(&status)
}
