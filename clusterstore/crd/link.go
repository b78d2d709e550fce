package crd

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Link says what Linkerd's service mirror mirrors of another cluster.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Link struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              LinkSpec `json:"spec"`
	Invalid           string   `json:"-"` // why the spec can't be read; empty: it can
}

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

// UnmarshalJSON implements [json.Unmarshaler].
func (l *Link) UnmarshalJSON(data []byte) error {
	o, err := readObject(data)
	if err != nil {
		return err
	}
	*l = Link{TypeMeta: o.TypeMeta, ObjectMeta: o.ObjectMeta}
	l.Spec, l.Invalid = part[LinkSpec]("spec", o.Spec)
	return nil
}
