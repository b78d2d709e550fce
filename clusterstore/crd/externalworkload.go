package crd

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ExternalWorkload is a process outside of the cluster that has a proxy.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ExternalWorkload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ExternalWorkloadSpec   `json:"spec"`
	Status            ExternalWorkloadStatus `json:"status,omitzero"`
	Invalid           string                 `json:"-"` // why the spec can't be read; empty: it could
}

// ExternalWorkloadSpec says where the workload is and who it is.
type ExternalWorkloadSpec struct {
	MeshTLS     MeshTLS      `json:"meshTLS"`
	Ports       []PortSpec   `json:"ports,omitempty"`
	WorkloadIPs []WorkloadIP `json:"workloadIPs,omitempty"`
}

// MeshTLS is how the workload's proxy is known.
type MeshTLS struct {
	Identity   string `json:"identity"`   // a URI, such as a SPIFFE ID
	ServerName string `json:"serverName"` // what to ask for in the TLS handshake
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

// ExternalWorkloadStatus says how the workload is doing.
type ExternalWorkloadStatus struct {
	Conditions []WorkloadCondition `json:"conditions,omitempty"`
}

// WorkloadCondition is one thing that is known of the workload's state.
type WorkloadCondition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"` // True, False or Unknown
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}

// ExternalWorkloadList is a list of ExternalWorkloads.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ExternalWorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ExternalWorkload `json:"items"`
}

// UnmarshalJSON reads an ExternalWorkload, whatever its spec and status say. A
// status that can't be read is as good as none: no condition is known.
func (w *ExternalWorkload) UnmarshalJSON(data []byte) error {
	o, err := read(data)
	if err != nil {
		return err
	}
	*w = ExternalWorkload{TypeMeta: o.TypeMeta, ObjectMeta: o.ObjectMeta}
	w.Spec, w.Invalid = part[ExternalWorkloadSpec]("spec", o.Spec)
	w.Status, _ = part[ExternalWorkloadStatus]("status", o.Status)
	return nil
}
