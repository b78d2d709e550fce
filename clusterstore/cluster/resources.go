package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"isthmus/clusterstore/follow"
)

// newResources returns the resources that the cluster follows. Each is defined in the
// file of its kind. To follow another one, add it here and to kinds (metrics.go), which
// has the names of its metrics.
func (c *Cluster) newResources() []*follow.Resource {
	all := []*follow.Resource{resource(c, c.services()), resource(c, c.pods())}
	if c.cfg.Rules.EndpointSlices {
		all = append(all, resource(c, c.slices()))
	} else {
		all = append(all, resource(c, c.endpoints()))
	}
	all = append(all, resource(c, c.replicaSets()), resource(c, c.jobs()))
	all = append(all, resource(c, c.policyServers()), resource(c, c.workloads()))
	if c.state.addresses != nil {
		all = append(all, resource(c, c.profiles()))
	}
	if c.cfg.Nodes || c.cfg.OnNode != nil {
		all = append(all, resource(c, c.nodes()))
	}
	return all
}

func resource[O runtime.Object, T any](c *Cluster, k follow.Kind[O, T]) *follow.Resource {
	k.Lag = c.cfg.Metrics.lag(k.Name)
	return follow.New(k)
}

// custom returns the calls for a custom resource, which a cluster need not have.
func custom[L runtime.Object](c *Cluster, client follow.Lister[L], version schema.GroupVersion, resource string) follow.Calls {
	return c.optional(follow.CallsOf(client), version.WithResource(resource))
}

func (c *Cluster) optional(calls follow.Calls, resource schema.GroupVersionResource) follow.Calls {
	calls.Serves = func(ctx context.Context) (bool, error) { return c.cfg.Client.Serves(ctx, resource) }
	return calls
}

// metadata returns the calls for an optional resource of which only the metadata is read.
func (c *Cluster) metadata(group, name string) follow.Calls {
	resource := schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}
	return c.optional(follow.CallsOf(c.cfg.Client.Metadata.Resource(resource)), resource)
}
