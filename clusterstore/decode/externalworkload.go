package decode

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
