package crd

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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

// NewScheme returns a scheme with the types, and those needed to list and watch them.
func NewScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(ProfileVersion, &ServiceProfile{}, &ServiceProfileList{})
	s.AddKnownTypes(PolicyVersion, &Server{}, &ServerList{})
	s.AddKnownTypes(WorkloadVersion, &ExternalWorkload{}, &ExternalWorkloadList{})
	for _, v := range []schema.GroupVersion{ProfileVersion, PolicyVersion, WorkloadVersion} {
		metav1.AddToGroupVersion(s, v)
	}
	return s
}
