package crd

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ProtocolOpaque is the ProxyProtocol of ports whose protocol is not detected.
const ProtocolOpaque = "opaque"

// Server is Linkerd's policy for a port of the Pods or ExternalWorkloads that it
// selects in its namespace. (It is no server process.)
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Server struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ServerSpec `json:"spec"`
	Invalid           string     `json:"-"` // why the spec can't be read; empty: it can
}

// ServerSpec has one of the two selectors. The other is nil and selects nothing.
type ServerSpec struct {
	PodSelector              *metav1.LabelSelector `json:"podSelector,omitempty"`
	ExternalWorkloadSelector *metav1.LabelSelector `json:"externalWorkloadSelector,omitempty"`
	Port                     intstr.IntOrString    `json:"port"` // a number, or the name of a container's port
	ProxyProtocol            string                `json:"proxyProtocol,omitempty"`
}

// ServerList is a list of Servers.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Server `json:"items"`
}

// UnmarshalJSON reads a Server, whatever its spec contains.
func (s *Server) UnmarshalJSON(data []byte) error {
	o, err := readObject(data)
	if err != nil {
		return err
	}
	*s = Server{TypeMeta: o.TypeMeta, ObjectMeta: o.ObjectMeta}
	s.Spec, s.Invalid = part[ServerSpec]("spec", o.Spec)
	return nil
}
