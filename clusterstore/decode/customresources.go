package decode

import (
	stdjson "encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"
)

// Resource is a custom resource. For most kinds, the status is not decoded.
type Resource[Spec, Status any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
	Invalid           string `json:"-"` // why the spec is malformed; empty if it is valid
}

// UnmarshalJSON decodes a resource. A malformed spec or status is not an error.
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

// If the spec or status of an object is missing or malformed, part returns the zero value.
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

// Link defines which Services of another cluster are mirrored by Linkerd's service mirror.
type Link = Resource[LinkSpec, struct{}]

// LinkSpec selects the Services to mirror. A nil or empty selector does not select any Services.
type LinkSpec struct {
	TargetClusterName string `json:"targetClusterName"`
	// Selector selects Services that are reached through gateways.
	Selector                 *metav1.LabelSelector `json:"selector,omitempty"`
	RemoteDiscoverySelector  *metav1.LabelSelector `json:"remoteDiscoverySelector,omitempty"`
	FederatedServiceSelector *metav1.LabelSelector `json:"federatedServiceSelector,omitempty"` // not in v1alpha1
	// ExcludedAnnotations and ExcludedLabels are keys that the service mirror does not copy. The
	// pattern DOMAIN/* matches all keys in a domain. ExcludedAnnotations and ExcludedLabels were
	// added in v1alpha3.
	ExcludedAnnotations []string `json:"excludedAnnotations,omitempty"`
	ExcludedLabels      []string `json:"excludedLabels,omitempty"`
}

// ProtocolOpaque is the ProxyProtocol of ports without protocol detection.
const ProtocolOpaque = "opaque"

// Server is a Linkerd policy resource. A Server applies to one port of the Pods or
// ExternalWorkloads that it selects in its namespace.
type Server = Resource[ServerSpec, struct{}]

// ServerSpec has either a PodSelector or an ExternalWorkloadSelector. A nil selector does not
// select anything.
type ServerSpec struct {
	PodSelector              *metav1.LabelSelector `json:"podSelector,omitempty"`
	ExternalWorkloadSelector *metav1.LabelSelector `json:"externalWorkloadSelector,omitempty"`
	Port                     intstr.IntOrString    `json:"port"` // a number, or the name of a container port
	ProxyProtocol            string                `json:"proxyProtocol,omitempty"`
}

// ExternalWorkload represents a process that runs outside the cluster and has a proxy.
type ExternalWorkload = Resource[ExternalWorkloadSpec, ExternalWorkloadStatus]

type ExternalWorkloadSpec struct {
	MeshTLS     MeshTLS      `json:"meshTLS"`
	Ports       []PortSpec   `json:"ports,omitempty"`
	WorkloadIPs []WorkloadIP `json:"workloadIPs,omitempty"`
}

type MeshTLS struct {
	Identity   string `json:"identity"`   // a URI, such as a SPIFFE ID
	ServerName string `json:"serverName"` // SNI of the TLS handshake
}

type PortSpec struct {
	Name     string `json:"name,omitempty"`
	Port     int32  `json:"port"`
	Protocol string `json:"protocol,omitempty"`
}

type WorkloadIP struct {
	IP string `json:"ip"`
}

type ExternalWorkloadStatus struct {
	Conditions []WorkloadCondition `json:"conditions,omitempty"`
}

type WorkloadCondition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"` // True, False or Unknown
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}

// ServiceProfile defines how proxies classify, retry and split the requests to a Service. The name
// of a ServiceProfile is the DNS name of the Service, including the cluster's domain.
type ServiceProfile = Resource[ServiceProfileSpec, struct{}]

// Each list in a ServiceProfileSpec contains a nil element wherever the JSON list contains null. A
// null element is never valid.
type ServiceProfileSpec struct {
	Routes       []*RouteSpec   `json:"routes,omitempty"`
	RetryBudget  *RetryBudget   `json:"retryBudget,omitempty"`
	DstOverrides []*WeightedDst `json:"dstOverrides,omitempty"`
}

// RouteSpec defines a route, which is a class of requests.
type RouteSpec struct {
	Name            string           `json:"name"`
	Condition       *Match           `json:"condition"`
	ResponseClasses []*ResponseClass `json:"responseClasses,omitempty"`
	IsRetryable     bool             `json:"isRetryable,omitempty"`
	Timeout         string           `json:"timeout,omitempty"` // a Go duration
}

// Match is a condition on a request or a response. To satisfy the condition, the request or
// response must match every field that is set. Requests do not have a status, and responses have
// neither a path nor a method.
type Match struct {
	All       []*Match `json:"all,omitempty"`
	Not       *Match   `json:"not,omitempty"`
	Any       []*Match `json:"any,omitempty"`
	PathRegex string   `json:"pathRegex,omitempty"`
	Method    string   `json:"method,omitempty"`
	Status    *Range   `json:"status,omitempty"`
}

type ResponseClass struct {
	Condition *Match `json:"condition"`
	IsFailure bool   `json:"isFailure,omitempty"`
}

// Range is an inclusive range of status codes. If one bound is zero, the range contains only the
// other bound.
type Range struct {
	Min uint32 `json:"min,omitempty"`
	Max uint32 `json:"max,omitempty"`
}

type RetryBudget struct {
	RetryRatio          float32 `json:"retryRatio"`
	MinRetriesPerSecond uint32  `json:"minRetriesPerSecond"`
	TTL                 string  `json:"ttl"` // a Go duration
}

type WeightedDst struct {
	Authority string `json:"authority"`
	Weight    Amount `json:"weight"`
}

// Amount is the string form of a Kubernetes quantity, such as 500m or 1. This package does not
// parse quantities, because parsing a large exponent can take a very long time.
type Amount string

// UnmarshalJSON decodes a string or a number.
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

var (
	ProfileVersion  = schema.GroupVersion{Group: "linkerd.io", Version: "v1alpha2"}
	PolicyVersion   = schema.GroupVersion{Group: "policy.linkerd.io", Version: "v1beta3"}
	WorkloadVersion = schema.GroupVersion{Group: "workload.linkerd.io", Version: "v1beta1"}
)

// LinkVersions lists the API versions of the Link kind, newest first. Each version lacks some
// fields of the preceding version in the list. The Linkerd release in a cluster determines which of
// these versions the cluster's API server serves.
var LinkVersions = []schema.GroupVersion{
	{Group: "multicluster.linkerd.io", Version: "v1alpha3"},
	{Group: "multicluster.linkerd.io", Version: "v1alpha2"},
	{Group: "multicluster.linkerd.io", Version: "v1alpha1"},
}
