package decode

import "k8s.io/apimachinery/pkg/runtime/schema"

// Groups and versions of the types.
var (
	ProfileVersion  = schema.GroupVersion{Group: "linkerd.io", Version: "v1alpha2"}
	PolicyVersion   = schema.GroupVersion{Group: "policy.linkerd.io", Version: "v1beta3"}
	WorkloadVersion = schema.GroupVersion{Group: "workload.linkerd.io", Version: "v1beta1"}
)

// LinkVersions are those of Links, the newest first. A server has those that its Linkerd came with, and each has fewer fields than
// the one before.
var LinkVersions = []schema.GroupVersion{
	{Group: "multicluster.linkerd.io", Version: "v1alpha3"},
	{Group: "multicluster.linkerd.io", Version: "v1alpha2"},
	{Group: "multicluster.linkerd.io", Version: "v1alpha1"},
}
