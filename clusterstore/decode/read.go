package decode

import (
	stdjson "encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// Resource is a custom resource. Of most the status is not read.
type Resource[Spec, Status any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
	Invalid           string `json:"-"` // why the spec can't be read; empty: it can
}

// UnmarshalJSON reads a resource, whatever its spec and status contain.
func (r *Resource[Spec, Status]) UnmarshalJSON(data []byte) error {
	var o struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              stdjson.RawMessage `json:"spec"`
		Status            stdjson.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	*r = Resource[Spec, Status]{TypeMeta: o.TypeMeta, ObjectMeta: o.ObjectMeta}
	r.Spec, r.Invalid = part[Spec]("spec", o.Spec)
	r.Status, _ = part[Status]("status", o.Status)
	return nil
}

// part reads a part of an object. One that is missing has its zero value, and so has one
// that can't be read.
func part[T any](name string, data []byte) (value T, invalid string) {
	if len(data) == 0 {
		return value, ""
	}
	if err := json.Unmarshal(data, &value); err != nil {
		var none T
		return none, name + ": " + err.Error()
	}
	return value, ""
}
