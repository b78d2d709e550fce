package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
)

// newResources returns the resources that the cluster follows. Each is defined in the
// file of its kind. To follow another one, add it here and to kinds (metrics.go), which
// has the names of its metrics.
func (c *Cluster) newResources() []*follow.Resource {
	all := []*follow.Resource{resource(c, serviceKind(c)), resource(c, podKind(c))}
	if c.cfg.Rules.EndpointSlices {
		all = append(all, resource(c, endpointSliceKind(c)))
	} else {
		all = append(all, resource(c, endpointsKind(c)))
	}
	all = append(all, resource(c, replicaSetKind(c)), resource(c, jobKind(c)))
	all = append(all, resource(c, serverKind(c)), resource(c, workloadKind(c)))
	if c.state.local != nil {
		all = append(all, resource(c, profileKind(c)), resource(c, localNodeKind(c)))
	} else {
		all = append(all, resource(c, linkedNodeKind(c)))
	}
	if c.cfg.Exports != nil && c.cfg.local != nil {
		all = append(all, resource(c, c.namespaces()))
	}
	if c.cfg.Exports != nil && c.cfg.Exports.ServiceExport != nil {
		all = append(all, resource(c, c.serviceExports()))
	}
	if c.cfg.Exports != nil && c.cfg.Exports.ServiceImport != nil && c.cfg.local != nil {
		all = append(all, resource(c, c.serviceImports()))
	}
	return all
}

func resource[O decode.Object, T any](c *Cluster, k follow.Kind[O, T]) *follow.Resource {
	k.Lag, k.Same = c.cfg.Metrics.lag(k.Name), k.Into.(store[T]).same
	return follow.New(k)
}

// serves returns what asks whether the cluster has an optional resource.
func (c *Cluster) serves(resource schema.GroupVersionResource) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		return c.cfg.Client.Sources.Serves(ctx, resource.Resource, resource.GroupVersion())
	}
}
