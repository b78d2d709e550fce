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
	"isthmus/local/externalworkload"
)

// writer is the writer of EndpointSlices for ExternalWorkloads, if there is one.
type writer struct {
	*externalworkload.Writer // nil: the gateway works without EndpointSlices
}

// writerParts is what a writer is made of.
type writerParts struct {
	rest     *rest.Config
	options  *options
	log      *zap.Logger
	registry *prometheus.Registry
	metrics  *cluster.Metrics
}

func newWriter(p writerParts) (writer, error) {
	if !p.options.slices {
		return writer{}, nil
	}
	api, err := kube.New(federation.Local, p.rest, p.metrics.Requests())
	if err != nil {
		return writer{}, fmt.Errorf("client for ExternalWorkloads: %w", err)
	}
	client, err := api.Clientset()
	if err != nil {
		return writer{}, fmt.Errorf("client for EndpointSlices: %w", err)
	}
	name, err := replicaName()
	if err != nil {
		return writer{}, err
	}
	w, err := externalworkload.New(externalworkload.Options{
		Client:       client,
		Workloads:    api.Workloads,
		Namespace:    p.options.namespace,
		Identity:     name,
		QueueMetrics: p.options.queueMetrics,
		Registerer:   p.registry,
		Log:          p.log,
	})
	return writer{w}, err
}

// replicaName is what this replica is called in the Lease: its Pod's name.
func replicaName() (string, error) {
	if name := os.Getenv("HOSTNAME"); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("$HOSTNAME, which tells this replica from others, is not set: %w", err)
	}
	return name, nil
}

// parts are what a gateway runs of it.
func (w writer) parts() []follower {
	if w.Writer == nil {
		return nil
	}
	return []follower{{name: "EndpointSlice writer", run: w.Run}}
}

// addTo adds the writer's status to a page.
func (w writer) addTo(page clustersPage) clustersPage {
	if w.Writer != nil {
		page.Writer = new(w.Status())
	}
	return page
}
