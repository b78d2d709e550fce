package crd

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// ServiceProfile says how requests to a Service are told apart and treated. Its
// name is the Service's name as clients have it, with the cluster's domain.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ServiceProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ServiceProfileSpec `json:"spec"`
	Invalid           string             `json:"-"` // why the spec can't be read; empty: it could
}

// ServiceProfileSpec is what a profile says. Elements of its lists may be nil
// where the object has null, which is never valid.
type ServiceProfileSpec struct {
	Routes       []*RouteSpec   `json:"routes,omitempty"`
	RetryBudget  *RetryBudget   `json:"retryBudget,omitempty"`
	DstOverrides []*WeightedDst `json:"dstOverrides,omitempty"`
}

// RouteSpec is one kind of requests.
type RouteSpec struct {
	Name            string           `json:"name"`
	Condition       *RequestMatch    `json:"condition"`
	ResponseClasses []*ResponseClass `json:"responseClasses,omitempty"`
	IsRetryable     bool             `json:"isRetryable,omitempty"`
	Timeout         string           `json:"timeout,omitempty"` // a Go duration
}

// RequestMatch holds for a request if all fields that are set do.
type RequestMatch struct {
	All       []*RequestMatch `json:"all,omitempty"`
	Not       *RequestMatch   `json:"not,omitempty"`
	Any       []*RequestMatch `json:"any,omitempty"`
	PathRegex string          `json:"pathRegex,omitempty"`
	Method    string          `json:"method,omitempty"`
}

// ResponseClass is one kind of responses.
type ResponseClass struct {
	Condition *ResponseMatch `json:"condition"`
	IsFailure bool           `json:"isFailure,omitempty"`
}

// ResponseMatch holds for a response if all fields that are set do.
type ResponseMatch struct {
	All    []*ResponseMatch `json:"all,omitempty"`
	Not    *ResponseMatch   `json:"not,omitempty"`
	Any    []*ResponseMatch `json:"any,omitempty"`
	Status *Range           `json:"status,omitempty"`
}

// Range is of status codes, both ends included. Zero is no bound.
type Range struct {
	Min uint32 `json:"min,omitempty"`
	Max uint32 `json:"max,omitempty"`
}

// RetryBudget bounds how many retries there are.
type RetryBudget struct {
	RetryRatio          float32 `json:"retryRatio"`
	MinRetriesPerSecond uint32  `json:"minRetriesPerSecond"`
	TTL                 string  `json:"ttl"` // a Go duration
}

// WeightedDst is where a part of the requests goes instead.
type WeightedDst struct {
	Authority string `json:"authority"`
	Weight    Amount `json:"weight"`
}

// Amount is a Kubernetes quantity as it is written, like 500m or 1. It is not
// parsed: to work out what an exponent says may take for ever.
type Amount string

// UnmarshalJSON reads a text or a number.
func (a *Amount) UnmarshalJSON(data []byte) error {
	switch c := data[0]; {
	case c == '"':
		return json.Unmarshal(data, (*string)(a))
	case c == '-' || '0' <= c && c <= '9':
		*a = Amount(data)
	case string(data) != "null":
		return fmt.Errorf("%.20q is no amount", data)
	}
	return nil
}

// ServiceProfileList is a list of ServiceProfiles.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ServiceProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ServiceProfile `json:"items"`
}

// UnmarshalJSON reads a ServiceProfile, whatever its spec says.
func (p *ServiceProfile) UnmarshalJSON(data []byte) error {
	o, err := read(data)
	if err != nil {
		return err
	}
	*p = ServiceProfile{TypeMeta: o.TypeMeta, ObjectMeta: o.ObjectMeta}
	p.Spec, p.Invalid = part[ServiceProfileSpec]("spec", o.Spec)
	return nil
}
