package apisim

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

type kind struct {
	schema.GroupVersionKind
	resource string // the plural name in paths
}

var kinds = [...]kind{
	{schema.GroupVersionKind{Version: "v1", Kind: "Service"}, "services"},
	{schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "namespaces"},
	{schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "pods"},
	{schema.GroupVersionKind{Version: "v1", Kind: "Endpoints"}, "endpoints"},
	{schema.GroupVersionKind{Version: "v1", Kind: "Node"}, "nodes"},
	{schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "secrets"},
	{schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "configmaps"},
	{schema.GroupVersionKind{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"}, "endpointslices"},
	{schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, leases},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, "replicasets"},
	{schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, "jobs"},
	{schema.GroupVersionKind{Group: "policy.linkerd.io", Version: "v1beta3", Kind: "Server"}, "servers"},
	{
		schema.GroupVersionKind{Group: "workload.linkerd.io", Version: "v1beta1", Kind: "ExternalWorkload"},
		"externalworkloads",
	},
	{schema.GroupVersionKind{Group: "linkerd.io", Version: "v1alpha2", Kind: "ServiceProfile"}, "serviceprofiles"},
	{
		schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1beta1", Kind: "ServiceExport"},
		"serviceexports",
	},
	{
		schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1beta1", Kind: "ServiceImport"},
		"serviceimports",
	},
}

const leases = "leases"

func (k kind) prefix() string {
	if k.Group == "" {
		return "/api/" + k.Version + "/"
	}
	return "/apis/" + k.Group + "/" + k.Version + "/"
}

// kindOf returns the kind of an object. If the TypeMeta of a typed object is empty, kindOf derives
// the kind from the Go type.
func kindOf(o runtime.Object) (kind, error) {
	of := o.GetObjectKind().GroupVersionKind()
	if of.Empty() {
		all, _, err := scheme.Scheme.ObjectKinds(o)
		if err != nil {
			return kind{}, err
		}
		of = all[0]
	}
	for _, k := range kinds {
		if k.GroupVersionKind == of {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("objects of kind %s are not served", of)
}

func (k kind) group() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.resource}
}

func (k kind) namespaced() bool { return k.Kind != "Node" && k.Kind != "Namespace" }

// target identifies the objects to which a request refers: all objects of a kind, all objects of a
// kind in a namespace, or one object.
type target struct {
	kind
	namespace string // empty for all namespaces or a cluster-scoped object
	name      string // empty for all objects
	status    bool   // only the object's status
}

func parsePath(path string) (target, bool) {
	for _, k := range kinds {
		rest, ok := strings.CutPrefix(path, k.prefix())
		if !ok {
			continue
		}
		t := target{kind: k}
		if in, ok := strings.CutPrefix(rest, "namespaces/"); ok && k.namespaced() {
			t.namespace, rest, _ = strings.Cut(in, "/")
		}
		if rest == k.resource {
			return t, true
		}
		t.name, ok = strings.CutPrefix(rest, k.resource+"/")
		t.name, t.status = strings.CutSuffix(t.name, "/status")
		if ok && t.name != "" && !strings.Contains(t.name, "/") {
			return t, true
		}
	}
	return target{}, false
}
