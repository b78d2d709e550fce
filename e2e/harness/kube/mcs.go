package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/mcs-api/config/crd"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/e2e/harness"
)

// MCSVersions are those of the MCS-API: of ServiceExports and ServiceImports.
var MCSVersions = []string{"v1alpha1", "v1beta1"}

// ServeMCS makes the cluster have the CRDs of the MCS-API, and serve these versions; none: the objects stay, and can't be reached. It
// returns when that is so.
func (c *Client) ServeMCS(ctx context.Context, versions ...string) error {
	definitions, err := mcsDefinitions()
	if err != nil {
		return err
	}
	for _, o := range definitions {
		all, _, err := unstructured.NestedSlice(o.Object, "spec", "versions")
		if err != nil {
			return err
		}
		for _, v := range all {
			v := v.(map[string]any)
			v["served"] = slices.Contains(versions, v["name"].(string))
		}
		if err := unstructured.SetNestedSlice(o.Object, all, "spec", "versions"); err != nil {
			return err
		}
		if err := c.Apply(ctx, o); err != nil {
			return err
		}
	}
	return c.awaitMCS(ctx, versions)
}

// RemoveMCS deletes the CRDs of the MCS-API, and with them all objects.
func (c *Client) RemoveMCS(ctx context.Context) error {
	definitions, err := mcsDefinitions()
	if err != nil {
		return err
	}
	resource, _, err := c.ResourceNamed("customresourcedefinition")
	if err != nil {
		return err
	}
	unserved, err := c.servesNoMCS(ctx, resource, definitions)
	if err != nil {
		return err
	}
	if unserved {
		// To delete a CRD, the API server lists its objects. Without a served version that may fail for minutes,
		// because its storage is not initialized.
		if err := c.ServeMCS(ctx, MCSVersions...); err != nil {
			return err
		}
	}
	for _, o := range definitions {
		if err := c.In(resource, "").Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("cluster %s: delete CRD %s: %w", c.Name, o.GetName(), err)
		}
	}
	if err := c.awaitMCS(ctx, nil); err != nil {
		return fmt.Errorf("%w; %s", err, c.leftOfMCS(ctx))
	}
	// The API server ceases to serve a CRD before it deletes it. A CRD that is applied in between vanishes
	// a moment later.
	return harness.Poll(ctx, mcsPatience, 20*time.Millisecond, func() error {
		for _, o := range definitions {
			if _, err := c.In(resource, "").Get(ctx, o.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("cluster %s: %s (%v)", c.Name, c.leftOfMCS(ctx), err)
			}
		}
		return nil
	})
}

// servesNoMCS reports whether there are CRDs of the MCS-API of which no version is served.
func (c *Client) servesNoMCS(
	ctx context.Context,
	resource schema.GroupVersionResource,
	definitions []*unstructured.Unstructured,
) (bool, error) {
	for _, o := range definitions {
		found, err := c.In(resource, "").Get(ctx, o.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		versions, _, err := unstructured.NestedSlice(found.Object, "spec", "versions")
		if err != nil {
			return false, err
		}
		served := func(v any) bool {
			version, ok := v.(map[string]any)
			return ok && version["served"] == true
		}
		if !slices.ContainsFunc(versions, served) {
			return true, nil
		}
	}
	return false, nil
}

// leftOfMCS describes, for people, the CRDs of the MCS-API that exist, and why they are not gone.
func (c *Client) leftOfMCS(ctx context.Context) string {
	definitions, err := mcsDefinitions()
	if err != nil {
		return err.Error()
	}
	resource, _, err := c.ResourceNamed("customresourcedefinition")
	if err != nil {
		return err.Error()
	}
	var left []string
	for _, o := range definitions {
		found, err := c.In(resource, "").Get(ctx, o.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			left = append(left, err.Error())
			continue
		}
		conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
		left = append(left, fmt.Sprintf("CRD %s is deleted since %v, with the finalizers %q and the conditions %v",
			o.GetName(), found.GetDeletionTimestamp(), found.GetFinalizers(), conditions))
	}
	if len(left) == 0 {
		return "no CRD is left"
	}
	return strings.Join(left, "; ")
}

func mcsDefinitions() ([]*unstructured.Unstructured, error) {
	return Parse(string(crd.ServiceExportCRD) + "\n---\n" + string(crd.ServiceImportCRD))
}

// mcsPatience is how long the API server may take to serve other versions. When a CRD is deleted, the
// API server waits up to a minute for its objects to vanish, and then tries again.
const mcsPatience = 3 * time.Minute

// awaitMCS waits until the API server serves these versions and no others, and until discovery agrees, from which the
// mapper takes its resources. The API server takes over a change of a CRD separately for discovery and for requests to
// its resources, so that a resource that discovery names can still answer 404.
func (c *Client) awaitMCS(ctx context.Context, versions []string) error {
	return harness.Poll(ctx, mcsPatience, 20*time.Millisecond, func() error {
		meta.MaybeResetRESTMapper(c.mapper)
		for _, version := range MCSVersions {
			served := slices.Contains(versions, version)
			if err := c.mcsDiscovered(version, served); err != nil {
				return err
			}
			if err := c.mcsAnswers(ctx, version, served); err != nil {
				return err
			}
		}
		return nil
	})
}

// mcsDiscovered returns an error unless discovery names the resources of a version exactly if it is served.
func (c *Client) mcsDiscovered(version string, served bool) error {
	list, err := c.Discovery().ServerResourcesForGroupVersion(mcs.GroupName + "/" + version)
	if apierrors.IsNotFound(err) {
		list, err = &metav1.APIResourceList{}, nil
	}
	if err != nil {
		return err
	}
	n := 0
	if served {
		n = 4 // each of the two kinds, and its status
	}
	if len(list.APIResources) != n {
		return fmt.Errorf("cluster %s serves %d resources of version %s", c.Name, len(list.APIResources), version)
	}
	for _, kind := range []string{"ServiceExport", "ServiceImport"} {
		_, err := c.mapper.RESTMapping(schema.GroupKind{Group: mcs.GroupName, Kind: kind}, version)
		if (err == nil) != served {
			return fmt.Errorf("cluster %s, discovery of %s %s: %v", c.Name, version, kind, err)
		}
	}
	return nil
}

// mcsAnswers returns an error unless the API server answers requests for the resources of a version exactly if it is
// served.
func (c *Client) mcsAnswers(ctx context.Context, version string, served bool) error {
	for _, name := range []string{"serviceexports", "serviceimports"} {
		resource := schema.GroupVersionResource{Group: mcs.GroupName, Version: version, Resource: name}
		_, err := c.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return fmt.Errorf("cluster %s, list of %s %s: %w", c.Name, name, version, err)
		case (err == nil) != served:
			return fmt.Errorf("cluster %s, list of %s %s: served is %v, should be %v",
				c.Name, name, version, err == nil, served)
		}
	}
	return nil
}
