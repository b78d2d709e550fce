package main

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/cluster"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/local/externalworkload"
)

// sliceWriter is the writer of EndpointSlices for ExternalWorkloads, if there is
// one.
type sliceWriter struct {
	*externalworkload.Writer // nil: the gateway works without EndpointSlices
	api                      *kube.Client
}

type sliceWriterConfig struct {
	rest     *rest.Config
	options  *options
	log      *zap.Logger
	registry *prometheus.Registry
	metrics  *cluster.Metrics
}

func newSliceWriter(c sliceWriterConfig) (sliceWriter, error) {
	if !c.options.slices {
		return sliceWriter{}, nil
	}
	api, err := kube.New(federation.Local, c.rest, c.metrics.Requests())
	if err == nil {
		err = api.AddTyped()
	}
	if err != nil {
		return sliceWriter{}, fmt.Errorf("client for EndpointSlices: %w", err)
	}
	name, err := replicaName()
	if err != nil {
		return sliceWriter{}, err
	}
	w, err := externalworkload.New(externalworkload.Options{
		Client:       api.Clients,
		Namespace:    c.options.namespace,
		Identity:     name,
		QueueMetrics: c.options.queueMetrics,
		Registerer:   c.registry,
		Log:          c.log,
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

// addTo adds the writer's status to a page.
func (w sliceWriter) addTo(page adminapi.Clusters) adminapi.Clusters {
	if w.Writer != nil {
		page.Writer = new(w.Status())
		addRefused(&page, w.api.Server().Refused)
	}
	return page
}
