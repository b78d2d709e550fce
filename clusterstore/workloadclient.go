package clusterstore

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/crd"
	"isthmus/federation"
)

// WorkloadClient reads a cluster's ExternalWorkloads, in all namespaces.
type WorkloadClient interface {
	List(context.Context, metav1.ListOptions) (*crd.ExternalWorkloadList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// NewLocalWorkloadClient returns a client of the cluster that the gateway runs
// in, with the same limits and metrics as a Cluster's.
func NewLocalWorkloadClient(from *rest.Config, m *Metrics) (WorkloadClient, error) {
	cfg := rest.CopyConfig(from)
	cfg.QPS = -1
	client, _, err := newHTTPClient(federation.Local, cfg)
	if err != nil {
		return nil, err
	}
	client.Transport = m.transport(federation.Local, client.Transport)
	var c clients
	if err := c.dialCustom(cfg, client); err != nil {
		return nil, err
	}
	return c.workloads, nil
}
