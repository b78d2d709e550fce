package decode

import (
	stdjson "encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
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

// Link says what Linkerd's service mirror mirrors of another cluster.
type Link = Resource[LinkSpec, struct{}]

// LinkSpec is which Services are mirrored. A selector that is nil or empty selects none.
type LinkSpec struct {
	TargetClusterName string `json:"targetClusterName"`
	// of Services that are reached through gateways
	Selector                 *metav1.LabelSelector `json:"selector,omitempty"`
	RemoteDiscoverySelector  *metav1.LabelSelector `json:"remoteDiscoverySelector,omitempty"`
	FederatedServiceSelector *metav1.LabelSelector `json:"federatedServiceSelector,omitempty"` // not in v1alpha1
	// Keys that are not copied; DOMAIN/* stands for all of a domain. Not in versions before v1alpha3.
	ExcludedAnnotations []string `json:"excludedAnnotations,omitempty"`
	ExcludedLabels      []string `json:"excludedLabels,omitempty"`
}

// ProtocolOpaque is the ProxyProtocol of ports whose protocol is not detected.
const ProtocolOpaque = "opaque"

// Server is Linkerd's policy for a port of the Pods or ExternalWorkloads that it
// selects in its namespace. (It is no server process.)
type Server = Resource[ServerSpec, struct{}]

// ServerSpec has one of the two selectors. The other is nil and selects nothing.
type ServerSpec struct {
	PodSelector              *metav1.LabelSelector `json:"podSelector,omitempty"`
	ExternalWorkloadSelector *metav1.LabelSelector `json:"externalWorkloadSelector,omitempty"`
	Port                     intstr.IntOrString    `json:"port"` // a number, or the name of a container's port
	ProxyProtocol            string                `json:"proxyProtocol,omitempty"`
}

// ExternalWorkload is a process outside of the cluster that runs with a proxy.
type ExternalWorkload = Resource[ExternalWorkloadSpec, ExternalWorkloadStatus]

// ExternalWorkloadSpec has the workload's addresses, ports and identity.
type ExternalWorkloadSpec struct {
	MeshTLS     MeshTLS      `json:"meshTLS"`
	Ports       []PortSpec   `json:"ports,omitempty"`
	WorkloadIPs []WorkloadIP `json:"workloadIPs,omitempty"`
}

// MeshTLS is the identity of the workload's proxy.
type MeshTLS struct {
	Identity   string `json:"identity"`   // a URI, such as a SPIFFE ID
	ServerName string `json:"serverName"` // SNI of the TLS handshake
}

// PortSpec is a port that the workload listens on.
type PortSpec struct {
	Name     string `json:"name,omitempty"`
	Port     int32  `json:"port"`
	Protocol string `json:"protocol,omitempty"`
}

// WorkloadIP is an address of the workload.
type WorkloadIP struct {
	IP string `json:"ip"`
}

// ExternalWorkloadStatus is the status that controllers write.
type ExternalWorkloadStatus struct {
	Conditions []WorkloadCondition `json:"conditions,omitempty"`
}

// WorkloadCondition is one condition of the status, such as Ready.
type WorkloadCondition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"` // True, False or Unknown
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}

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

// Match holds for a request or a response if all fields that are set do. Requests have no status; responses have
// neither a path nor a method.
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

// Groups and versions of the types.
var (
	ProfileVersion  = schema.GroupVersion{Group: "linkerd.io", Version: "v1alpha2"}
	PolicyVersion   = schema.GroupVersion{Group: "policy.linkerd.io", Version: "v1beta3"}
	WorkloadVersion = schema.GroupVersion{Group: "workload.linkerd.io", Version: "v1beta1"}
)

// LinkVersions are those of Links, the newest first. A server has those that its Linkerd came with, and each has
// fewer fields than the one before.
var LinkVersions = []schema.GroupVersion{
	{Group: "multicluster.linkerd.io", Version: "v1alpha3"},
	{Group: "multicluster.linkerd.io", Version: "v1alpha2"},
	{Group: "multicluster.linkerd.io", Version: "v1alpha1"},
}
