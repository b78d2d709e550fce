package decode

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/json"
)

// ServiceProfile has the routes of a Service: how proxies classify, retry and split
// requests to it. Its name is the Service's DNS name, with the cluster's domain.
type ServiceProfile = Resource[ServiceProfileSpec, struct{}]

// ServiceProfileSpec is a profile's content. Elements of its lists are nil where the
// object has null, which is never valid.
type ServiceProfileSpec struct {
	Routes       []*RouteSpec   `json:"routes,omitempty"`
	RetryBudget  *RetryBudget   `json:"retryBudget,omitempty"`
	DstOverrides []*WeightedDst `json:"dstOverrides,omitempty"`
}

// RouteSpec is one route: a class of requests.
type RouteSpec struct {
	Name            string           `json:"name"`
	Condition       *Match           `json:"condition"`
	ResponseClasses []*ResponseClass `json:"responseClasses,omitempty"`
	IsRetryable     bool             `json:"isRetryable,omitempty"`
	Timeout         string           `json:"timeout,omitempty"` // a Go duration
}

// Match holds for a request or a response if all fields that are set do. Requests have no status; responses have neither a path nor
// a method.
type Match struct {
	All       []*Match `json:"all,omitempty"`
	Not       *Match   `json:"not,omitempty"`
	Any       []*Match `json:"any,omitempty"`
	PathRegex string   `json:"pathRegex,omitempty"`
	Method    string   `json:"method,omitempty"`
	Status    *Range   `json:"status,omitempty"`
}

// ResponseClass is a class of responses.
type ResponseClass struct {
	Condition *Match `json:"condition"`
	IsFailure bool   `json:"isFailure,omitempty"`
}

// Range is a range of status codes, both ends included. If one bound is zero, the other one is the
// only status of the range.
type Range struct {
	Min uint32 `json:"min,omitempty"`
	Max uint32 `json:"max,omitempty"`
}

// RetryBudget limits retries.
type RetryBudget struct {
	RetryRatio          float32 `json:"retryRatio"`
	MinRetriesPerSecond uint32  `json:"minRetriesPerSecond"`
	TTL                 string  `json:"ttl"` // a Go duration
}

// WeightedDst is a destination that gets a part of the requests.
type WeightedDst struct {
	Authority string `json:"authority"`
	Weight    Amount `json:"weight"`
}

// Amount is a Kubernetes quantity as it is written, like 500m or 1. It is not parsed
// here, since a large exponent takes very long.
type Amount string

// UnmarshalJSON reads a text or a number.
func (a *Amount) UnmarshalJSON(data []byte) error {
	switch c := data[0]; {
	case c == '"':
		return json.Unmarshal(data, (*string)(a))
	case c == '-' || '0' <= c && c <= '9':
		*a = Amount(data)
	case string(data) != "null":
		return fmt.Errorf("%.20q is not a quantity", data)
	}
	return nil
}
