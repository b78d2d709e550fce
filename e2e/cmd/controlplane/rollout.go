package main

import (
	"context"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/replicaset"
)

// newDeploymentController rolls Deployments out, by ReplicaSets.
func newDeploymentController(ctx context.Context, d *controllerDeps) (controllerLoop, error) {
	const workers = 2
	apps := d.informers.Apps().V1()
	c, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), d.informers.Core().V1().Pods(), d.client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

// newReplicaSetController creates and deletes Pods.
func newReplicaSetController(ctx context.Context, d *controllerDeps) (controllerLoop, error) {
	const workers = 2
	c := replicaset.NewReplicaSetController(ctx, d.informers.Apps().V1().ReplicaSets(), d.informers.Core().V1().Pods(),
		d.client, replicaset.BurstReplicas)
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

// newDisruptionController counts for PodDisruptionBudgets how many Pods may be evicted.
func newDisruptionController(ctx context.Context, d *controllerDeps) (controllerLoop, error) {
	const workers = 1
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d.client.Discovery()))
	scales := scale.New(d.client.Discovery().RESTClient(), mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(d.client.Discovery()))
	core, apps := d.informers.Core().V1(), d.informers.Apps().V1()
	c := disruption.NewDisruptionController(ctx, core.Pods(), d.informers.Policy().V1().PodDisruptionBudgets(),
		core.ReplicationControllers(), apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(), d.client, mapper, scales, d.client.Discovery())
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}
