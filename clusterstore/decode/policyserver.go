package decode

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

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
