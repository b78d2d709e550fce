package decode

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
)

// custom is the format of custom resources, which API servers send in JSON.
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

// list accepts the metadata and the kind of a list before or after the items.
func (c custom[T, O]) list(in *input, each func(data []byte, partial error) error) (all metav1.ListMeta, err error) {
	v := values{in}
	var of metav1.TypeMeta
	err = v.members(func(key string) (err error) {
		switch key {
		case "items":
			return v.elements('[', ']', func() error {
				return v.value(func(data []byte) error { return each(data, countable(data)) })
			})
		case "metadata":
			return v.value(func(data []byte) error {
				if len(data) > maxStatus || utiljson.Unmarshal(data, &all) != nil {
					return errNoJSON
				}
				return nil
			})
		case "kind":
			of.Kind, err = v.text()
		case "apiVersion":
			of.APIVersion, err = v.text()
		default:
			err = v.skip()
		}
		return err
	})
	if err == nil && (of.APIVersion != c.GroupVersion().String() || of.Kind != c.Kind+"List") {
		err = errKind("a list", c.Kind+"List")
	}
	return all, err
}

// next reads an event, which is a JSON object with the members "type" and "object".
func (c custom[T, O]) next(
	in *input, f func(as watch.EventType, of schema.GroupVersionKind, data []byte, partial error) error,
) error {
	return values{in}.value(func(data []byte) error {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if json.Unmarshal(data, &event) != nil || event.Object == nil {
			return errNoJSON
		}
		return f(
			eventType([]byte(event.Type)),
			namesOf(event.Object).GroupVersionKind(),
			event.Object,
			countable(event.Object),
		)
	})
}

func (custom[T, O]) decode(data []byte, partial error, f func(O, error) error) error {
	o := O(new(T))
	err := partial
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

// The names type contains the fields that are decoded even if an object is refused or its kind is
// not yet known.
type names struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name            string `json:"name"`
		Namespace       string `json:"namespace"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

// namesOf decodes the type, name, namespace and version of an object that may be malformed.
func namesOf(data []byte) *names {
	var n names
	_ = utiljson.Unmarshal(data, &n) // Unmarshal continues after malformed parts
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
