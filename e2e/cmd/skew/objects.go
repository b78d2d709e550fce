package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/e2e/harness/kube"
)

// objects contains the objects in west that leaders can write, by kind and name.
type objects map[string]unstructured.Unstructured

var written = []schema.GroupVersionResource{
	{Version: "v1", Resource: "services"},
	{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceimports"},
	{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceexports"},
}

func readObjects(ctx context.Context, c *kube.Client) (objects, error) {
	all := make(objects)
	for _, resource := range written {
		list, err := c.In(resource, namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			all[o.GetKind()+" "+generated(o)] = o
		}
	}
	return all, nil
}

// generated returns the name of an object. If the name is generated, it returns the name of the
// Service instead.
func generated(o unstructured.Unstructured) string {
	if o.GetGenerateName() != "" {
		return o.GetGenerateName() + "*"
	}
	return o.GetName()
}

// changed returns the names of objects written since then, and lines for the changed fields.
func (o objects) changed(now objects) (names, lines []string) {
	all := maps.Clone(o)
	maps.Copy(all, now)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		before, after := o[name], now[name]
		if before.GetResourceVersion() == after.GetResourceVersion() && before.GetUID() == after.GetUID() {
			continue
		}
		names = append(names, name)
		differing := contentsOf(name, before).differences(contentsOf(name, after))
		if len(differing) == 0 {
			differing = []string{name + ": written without a change"}
		}
		lines = append(lines, differing...)
	}
	return names, lines
}

// contentsOf returns the fields of an object except those that the API server sets on each write.
func contentsOf(name string, o unstructured.Unstructured) fields {
	all := make(fields)
	if o.Object == nil {
		return all
	}
	copied := o.DeepCopy()
	copied.SetManagedFields(nil)
	copied.SetResourceVersion("")
	copied.SetGeneration(0)
	all.add(name, copied.Object)
	return all
}

func holder(ctx context.Context, c *kube.Client, lease string) (string, error) {
	l, err := c.CoordinationV1().Leases("linkerd").Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return "", fmt.Errorf("the Lease %s has no holder", lease)
	}
	return *l.Spec.HolderIdentity, nil
}
