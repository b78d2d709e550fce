package main

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/kube"
	"isthmus/local/externalworkload"
)

// sliceWriter is the writer of EndpointSlices for ExternalWorkloads, if there is
// one.
type sliceWriter struct {
	*externalworkload.Writer // nil: the gateway works without EndpointSlices
	api                      *kube.Client
}

func newSliceWriter(o *options, cfg *rest.Config, metrics *cluster.Metrics, registry *prometheus.Registry, log *zap.Logger) (sliceWriter, error) {
	if !o.slices {
		return sliceWriter{}, nil
	}
	api, err := newTypedClient(cfg, metrics)
	if err != nil {
		return sliceWriter{}, fmt.Errorf("client for EndpointSlices: %w", err)
	}
	name, err := replicaName()
	if err != nil {
		return sliceWriter{}, err
	}
	w, err := externalworkload.New(externalworkload.Options{
		Client: api.Clients, Namespace: o.namespace, Identity: name, QueueMetrics: o.queueMetrics, Registerer: registry, Log: log,
	})
	return sliceWriter{w, api}, err
}

// replicaName returns the name of this replica in the Lease: its Pod's.
func replicaName() (string, error) {
	if name := os.Getenv("HOSTNAME"); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("this replica has no name for the Lease: $HOSTNAME is not set: %w", err)
	}
	return name, nil
}

// parts returns the writer as a part of the gateway, or none.
func (w sliceWriter) parts() []part {
	if w.Writer == nil {
		return nil
	}
	return []part{{name: "EndpointSlice writer", run: w.Run}}
}
