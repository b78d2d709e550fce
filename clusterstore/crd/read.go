package crd

import (
	stdjson "encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// object is an object whose spec and status are not decoded yet.
//
// +k8s:deepcopy-gen=false
type object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              stdjson.RawMessage `json:"spec"`
	Status            stdjson.RawMessage `json:"status"`
}

func readObject(data []byte) (o object, err error) {
	err = json.Unmarshal(data, &o)
	return o, err
}

// part decodes one part of an object. If that fails, it returns the zero value and the
// reason. A missing part is valid.
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
