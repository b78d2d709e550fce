package decode

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Link says what Linkerd's service mirror mirrors of another cluster.
type Link = Resource[LinkSpec, struct{}]

// LinkSpec is which Services are mirrored. A selector that is nil or empty selects none.
type LinkSpec struct {
	TargetClusterName        string                `json:"targetClusterName"`
	Selector                 *metav1.LabelSelector `json:"selector,omitempty"` // of Services that are reached through gateways
	RemoteDiscoverySelector  *metav1.LabelSelector `json:"remoteDiscoverySelector,omitempty"`
	FederatedServiceSelector *metav1.LabelSelector `json:"federatedServiceSelector,omitempty"` // not in v1alpha1
	// Keys that are not copied; DOMAIN/* stands for all of a domain. Not in versions before v1alpha3.
	ExcludedAnnotations []string `json:"excludedAnnotations,omitempty"`
	ExcludedLabels      []string `json:"excludedLabels,omitempty"`
}
