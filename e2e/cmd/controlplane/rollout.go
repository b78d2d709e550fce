package main

import (
	"context"

	"k8s.io/kubernetes/pkg/controller/deployment"
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
