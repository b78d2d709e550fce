package main

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore"
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
	metrics  *clusterstore.Metrics
}

func newWriter(p writerParts) (writer, error) {
	if !p.options.slices {
		return writer{}, nil
	}
	client, err := newWriterClient(p.rest, p.metrics)
	if err != nil {
		return writer{}, err
	}
	workloads, err := clusterstore.NewLocalWorkloadClient(p.rest, p.metrics)
	if err != nil {
		return writer{}, fmt.Errorf("client for ExternalWorkloads: %w", err)
	}
	name, err := replicaName()
	if err != nil {
		return writer{}, err
	}
	w, err := externalworkload.New(externalworkload.Options{
		Client:       client,
		Workloads:    workloads,
		Namespace:    p.options.namespace,
		Identity:     name,
		QueueMetrics: p.options.queueMetrics,
		Registerer:   p.registry,
		Log:          p.log,
	})
	return writer{w}, err
}

// newWriterClient returns a client that speaks protobuf: Services and slices are
// many.
func newWriterClient(from *rest.Config, m *clusterstore.Metrics) (kubernetes.Interface, error) {
	cfg := rest.CopyConfig(from)
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := clusterstore.NewLocalClient(cfg, m)
	if err != nil {
		return nil, fmt.Errorf("client for EndpointSlices: %w", err)
	}
	return client, nil
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
