package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/internal/adminapi"
)

// TestInstallBeforeLinkerd installs the gateway, in a namespace of another name, into a cluster that has none of Linkerd's
// definitions. It is ready, for which it must be allowed to read Secrets of its own namespace, shows what is missing, and
// follows it as soon as it is there.
func TestInstallBeforeLinkerd(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := startClusters(t, []string{"namespace", "serviceaccount"}, "west")[0]
	west := client(t, server)
	removed := removeDefinitions(t, west)
	dir := overlay(t, kustomization{
		Resources: []string{"install"}, Namespace: "mesh", Transformers: []string{"install/names"},
	}, nil)
	must(t, west.Apply(ctx, restricted("mesh")))
	mustShell(t, server, "kubectl apply -k "+dir)
	offerShop(t, west, "10.82.1.1")
	must(t, west.Apply(ctx, kube.Federated("shop", "web-federated", "web")))

	d := find[appsv1.Deployment](t, build(t, dir), "Deployment", "isthmus")
	g := startPod(t, server, west, podOf(d, "isthmus-0"))
	awaitShop(t, openShop(t, g), "10.82.1.1")
	await(t, "the page shows what is missing", func() error {
		return missing(t, g, "externalworkloads", "servers", "serviceprofiles")
	})
	for _, o := range removed {
		must(t, west.Apply(ctx, o))
	}
	await(t, "nothing is missing now", func() error { return missing(t, g) })
	west = client(t, server) // which knows the definitions
	must(t, west.Apply(ctx, kube.OpaqueServer("shop", "web", "web", kube.Port)))
	await(t, "a Server is followed", func() error {
		page, err := harness.ReadClusters(ctx, g.MetricsAddr())
		if err != nil {
			return err
		}
		i := slices.IndexFunc(page.Local.Resources, func(r adminapi.Resource) bool { return r.Resource == "servers" })
		if i < 0 || page.Local.Resources[i].Objects != 1 {
			return fmt.Errorf("the own cluster has %+v", page.Local.Resources)
		}
		return nil
	})
}

// missing returns an error unless the page shows that these resources of the own cluster, and no others, can't be read.
func missing(t *testing.T, g *harness.Replica, resources ...string) error {
	t.Helper()
	page, err := harness.ReadClusters(t.Context(), g.MetricsAddr())
	if err != nil {
		return err
	}
	if page.Local.State != "ready" {
		return fmt.Errorf("the own cluster is %s", page.Local.State)
	}
	var names []string
	for _, r := range page.Local.Resources {
		if r.Err != "" {
			names = append(names, r.Resource)
		}
	}
	if slices.Sort(names); !slices.Equal(names, resources) {
		return fmt.Errorf("%q are missing: %+v", names, page.Local.Resources)
	}
	return nil
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// removeDefinitions deletes the definitions of Linkerd's resources, and returns once nothing is left of them.
func removeDefinitions(t *testing.T, c *kube.Client) (removed []*unstructured.Unstructured) {
	t.Helper()
	api := c.Dynamic.Resource(definitions)
	list, err := api.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for i := range list.Items {
		o := &list.Items[i]
		must(t, api.Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}))
		removed = append(removed, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": o.GetName()}, "spec": o.Object["spec"],
		}})
	}
	if len(removed) != 4 {
		t.Fatalf("%d definitions, of which four are expected", len(removed))
	}
	// An API server that could not look at once whether objects of a definition are gone ("storage is (re)initializing")
	// may take minutes to look again, but does when the definition changes.
	touched := time.Now()
	err = harness.Poll(t.Context(), 3*time.Minute, 100*time.Millisecond, func() error {
		list, err := api.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return err
		}
		if name := list.Items[0].GetName(); time.Since(touched) > 5*time.Second {
			touched = time.Now()
			change := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":%q}}}`, touched)
			if _, err := api.Patch(t.Context(), name, types.MergePatchType, change, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return fmt.Errorf("definition %s is still there: %v", list.Items[0].GetName(), list.Items[0].Object["status"])
	})
	must(t, err)
	for _, version := range []string{"linkerd.io/v1alpha2", "policy.linkerd.io/v1beta3", "workload.linkerd.io/v1beta1"} {
		await(t, version+" is gone", func() error {
			if _, err := c.Discovery().ServerResourcesForGroupVersion(version); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it is there"), err)
			}
			return nil
		})
	}
	return removed
}
