package check

import (
	"net/http"
	"slices"
	"strings"

	"isthmus/internal/adminapi"
)

// Permission is an RBAC permission that a cluster must grant.
type Permission struct {
	Group, Resource string
	Verbs           []string
	Name            string // name of the object; empty for all objects
	InNamespace     bool   // a Role in the control plane's namespace is enough
	Level           Level  // level of the result if the permission is missing; Unchecked if the permission is optional
	Lost            string // what fails without the permission
}

var read = []string{"get", "list", "watch"}

// LocalPermissions returns the permissions that a replica needs in the local cluster (see
// manifests/install/rbac.yaml).
func LocalPermissions() []Permission {
	return []Permission{
		{"", "pods", read, "", false, Failure, "replicas do not become ready"},
		{"", "services", read, "", false, Failure, "replicas do not become ready"},
		{"", "endpoints", read, "", false, Warning, "--enable-endpoint-slices=false does not work"},
		{
			"", "nodes", read, "", false, Warning,
			"zones and the region are unknown, and Isthmus may probe local Nodes as gateways of linked clusters",
		},
		{"discovery.k8s.io", "endpointslices", read, "", false, Failure, "replicas do not become ready"},
		{"discovery.k8s.io", "endpointslices", []string{"create", "update", "patch", "delete"}, "", false, Warning,
			"EndpointSlices for ExternalWorkloads are not written"},
		{"apps", "replicasets", read, "", false, Warning,
			"the metric labels of endpoints do not include the names of Deployments"},
		{"batch", "jobs", read, "", false, Warning,
			"the metric labels of endpoints do not include the names of CronJobs"},
		{"linkerd.io", "serviceprofiles", read, "", false, Warning, "ServiceProfiles have no effect"},
		{"policy.linkerd.io", "servers", read, "", false, Warning, "opaque ports in Servers have no effect"},
		{"workload.linkerd.io", "externalworkloads", read, "", false, Warning, "ExternalWorkloads are not served"},
		{"", "secrets", read, "", true, Failure, "no cluster is linked, and new replicas do not become ready"},
		{"coordination.k8s.io", "leases", []string{"create", "get", "update", "patch"}, "", true, Warning,
			"EndpointSlices for ExternalWorkloads are not written"},
		{"", "configmaps", []string{"get"}, anchorsConfigMap, true, Unchecked, "trust anchors cannot be compared"},
		{"", "configmaps", []string{"get", "list", "create", "delete"}, "", true, Unchecked,
			"newly started replicas do not serve a linked cluster whose API is unreachable"},
	}
}

// ExportPermissions returns the additional permissions that --exports=on needs (see
// manifests/install/exports/rbac.yaml).
func ExportPermissions() []Permission {
	const mcs, unwritten = "multicluster.x-k8s.io", "ServiceImports are not written"
	write := []string{"create", "update", "delete"}
	status := []string{"update"}
	return []Permission{
		{"", "services", write, "", false, Warning, "Services for exports are not written"},
		{"", "namespaces", read, "", false, Warning, "nothing is written for exports"},
		{mcs, "serviceexports", read, "", false, Warning, unwritten},
		{mcs, "serviceimports", read, "", false, Warning, unwritten},
		{mcs, "serviceimports", write, "", false, Warning, unwritten},
		{mcs, "serviceimports/status", status, "", false, Warning,
			"ServiceImports do not list the exporting clusters"},
		{mcs, "serviceexports/status", status, "", false, Warning, "ServiceExports have no conditions"},
	}
}

// LinkPermissions returns the permissions that a link's credentials need in the linked cluster (see
// manifests/link/remote-access.yaml).
func LinkPermissions() []Permission {
	return []Permission{
		{"", "pods", read, "", false, Failure, "the cluster does not join"},
		{"", "services", read, "", false, Failure, "the cluster does not join"},
		{"", "endpoints", read, "", false, Warning,
			"replicas with --enable-endpoint-slices=false do not read the cluster's endpoints"},
		{"discovery.k8s.io", "endpointslices", read, "", false, Failure, "the cluster does not join"},
		{"apps", "replicasets", read, "", false, Warning,
			"the metric labels of endpoints do not include the names of the cluster's Deployments"},
		{"batch", "jobs", read, "", false, Warning,
			"the metric labels of endpoints do not include the names of the cluster's CronJobs"},
		{"policy.linkerd.io", "servers", read, "", false, Warning,
			"opaque ports in the cluster's Servers have no effect"},
		{"workload.linkerd.io", "externalworkloads", read, "", false, Unchecked,
			"the cluster's ExternalWorkloads are not served"},
		{"multicluster.x-k8s.io", "serviceexports", read, "", false, Unchecked,
			"the cluster's ServiceExports are not read"},
		{"", "nodes", read, "", false, Unchecked, "the cluster's region and Pod CIDRs are unknown"},
		{"", "configmaps", []string{"get"}, anchorsConfigMap, false, Unchecked,
			"the cluster's trust anchors cannot be compared"},
	}
}

// String returns the resource in the syntax of kubectl auth can-i, without the verb.
func (r Permission) String() string {
	s := r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Name != "" {
		s += "/" + r.Name
	}
	return s
}

func (r Permission) missing(refused []adminapi.RefusedRequest) (verbs []string) {
	for _, verb := range r.Verbs {
		if slices.ContainsFunc(refused, func(x adminapi.RefusedRequest) bool {
			resource, name, _ := strings.Cut(x.Resource, "/")
			return x.Status == http.StatusForbidden && x.Verb == verb &&
				(x.Resource == r.String() || r.Name == "" && name != anchorsConfigMap && resource == r.String())
		}) {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}
