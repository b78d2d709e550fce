package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	jwt "k8s.io/kubernetes/pkg/serviceaccount"

	"isthmus/e2e/harness"
)

// defaultControllers is the minimum for a usable cluster: deleted namespaces disappear, and Pods
// are admitted because their ServiceAccount exists.
var defaultControllers = []string{"namespace", "serviceaccount"}

type controllerDeps struct {
	client      kubernetes.Interface
	metadata    metadata.Interface
	informers   informers.SharedInformerFactory
	started     chan struct{} // closed when the informers have started
	credentials clusterCredentials
}

type controllerLoop func(context.Context)

// controllers contains the constructors of all supported controllers by name. A constructor
// registers the controller with the informers, but does not start anything.
var controllers = map[string]func(context.Context, *controllerDeps) (controllerLoop, error){
	"namespace":      newNamespaceController,
	"serviceaccount": newServiceAccountController,
	"token":          newTokenController,
	"endpointslice":  newEndpointSliceController,
	"gc":             newGarbageCollector,
	"clusterrole":    newClusterRoleController,
	"deployment":     newDeploymentController,
	"replicaset":     newReplicaSetController,
}

func controllerNames() []string { return slices.Sorted(maps.Keys(controllers)) }

func parseControllers(list string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if name == "" || slices.Contains(names, name) {
			continue
		}
		if controllers[name] == nil {
			return nil, harness.Usagef(
				"--controllers: there is no %q; there are %s",
				name,
				strings.Join(controllerNames(), ", "),
			)
		}
		names = append(names, name)
	}
	return names, nil
}

func startControllers(
	ctx context.Context,
	loopback *rest.Config,
	names []string,
	credentials clusterCredentials,
) error {
	cfg := unlimited(loopback)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(cfg)
	if err != nil {
		return err
	}
	deps := &controllerDeps{
		client: client, metadata: metadataClient, credentials: credentials,
		informers: informers.NewSharedInformerFactory(client, 0),
		started:   make(chan struct{}),
	}
	for _, name := range names {
		loop, err := controllers[name](ctx, deps)
		if err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
		go loop(ctx)
	}
	deps.informers.StartWithContext(ctx)
	close(deps.started)
	return nil
}

func newNamespaceController(ctx context.Context, d *controllerDeps) (controllerLoop, error) {
	const resync, workers = 5 * time.Minute, 10
	c := namespace.NewNamespaceController(
		ctx,
		d.client,
		d.metadata,
		d.client.Discovery().ServerPreferredNamespacedResources,
		d.informers.Core().V1().Namespaces(),
		resync,
		v1.FinalizerKubernetes,
	)
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

func newServiceAccountController(ctx context.Context, d *controllerDeps) (controllerLoop, error) {
	c, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx),
		d.informers.Core().V1().ServiceAccounts(), d.informers.Core().V1().Namespaces(),
		d.client, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

// newTokenController returns the controller that fills Secrets of type
// kubernetes.io/service-account-token.
func newTokenController(ctx context.Context, d *controllerDeps) (controllerLoop, error) {
	ca, err := os.ReadFile(d.credentials.CA)
	if err != nil {
		return nil, err
	}
	key, err := keyutil.PrivateKeyFromFile(d.credentials.AccountKey)
	if err != nil {
		return nil, err
	}
	generator, err := jwt.JWTTokenGenerator(jwt.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	c, err := serviceaccount.NewTokensController(klog.FromContext(ctx),
		d.informers.Core().V1().ServiceAccounts(), d.informers.Core().V1().Secrets(),
		d.client, serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: ca})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 2) }, nil
}

func newEndpointSliceController(ctx context.Context, d *controllerDeps) (controllerLoop, error) {
	const endpointsPerSlice, noBatching, workers = 100, 0, 5
	core := d.informers.Core().V1()
	c := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(),
		d.informers.Discovery().V1().EndpointSlices(), endpointsPerSlice, d.client, noBatching)
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

// newClusterRoleController returns the controller that fills aggregated ClusterRoles. Without this
// controller, the roles view, edit and admin grant nothing.
func newClusterRoleController(_ context.Context, d *controllerDeps) (controllerLoop, error) {
	const workers = 2
	c := clusterroleaggregation.NewClusterRoleAggregation(d.informers.Rbac().V1().ClusterRoles(), d.client.RbacV1())
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

// newGarbageCollector returns the controller that deletes objects whose owners do not exist.
func newGarbageCollector(ctx context.Context, d *controllerDeps) (controllerLoop, error) {
	const resync, workers = 30 * time.Second, 10
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d.client.Discovery()))
	factory := informerfactory.NewInformerFactory(d.informers, metadatainformer.NewSharedInformerFactory(d.metadata, 0))
	c, err := garbagecollector.NewGarbageCollector(ctx, d.client, d.metadata, mapper,
		garbagecollector.DefaultIgnoredResources(), factory, d.started)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		var wg sync.WaitGroup
		wg.Go(func() { c.Run(ctx, workers, resync) })
		wg.Go(func() { c.Sync(ctx, d.client.Discovery(), resync) })
		wg.Wait()
	}, nil
}

func newDeploymentController(ctx context.Context, d *controllerDeps) (controllerLoop, error) {
	const workers = 2
	apps := d.informers.Apps().V1()
	c, err := deployment.NewDeploymentController(
		ctx,
		apps.Deployments(),
		apps.ReplicaSets(),
		d.informers.Core().V1().Pods(),
		d.client,
	)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}

func newReplicaSetController(ctx context.Context, d *controllerDeps) (controllerLoop, error) {
	const workers = 2
	c := replicaset.NewReplicaSetController(ctx, d.informers.Apps().V1().ReplicaSets(), d.informers.Core().V1().Pods(),
		d.client, replicaset.BurstReplicas)
	return func(ctx context.Context) { c.Run(ctx, workers) }, nil
}
