package shop

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Export exports a Service of the shop by a ServiceExport.
func (c *Cluster) Export(ctx context.Context, service string) error {
	return c.ApplyYAML(ctx, fmt.Sprintf("{apiVersion: %s, kind: ServiceExport, metadata: {name: %s, namespace: %s}}", mcs.GroupVersion, service, Namespace))
}

// ImportIP waits for the first IP of a ServiceImport.
func (c *Cluster) ImportIP(ctx context.Context, name string) (ip string, err error) {
	resource, _, err := c.ResourceNamed("serviceimport")
	if err != nil {
		return "", err
	}
	err = wait(ctx, func() error {
		o, err := c.In(resource, Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("cluster %s: ServiceImport %s: %w", c.Name, name, err)
		}
		ips, _, err := unstructured.NestedStringSlice(o.Object, "spec", "ips")
		if err == nil && len(ips) == 0 {
			err = fmt.Errorf("cluster %s: ServiceImport %s has no IP", c.Name, name)
		}
		if err == nil {
			ip = ips[0]
		}
		return err
	})
	return ip, err
}
