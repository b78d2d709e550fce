//go:build !assets

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/compatibility"
	logsapi "k8s.io/component-base/logs/api/v1"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

func startCompiled(ctx context.Context, o serverOptions) (*servers, error) {
	etcd, err := startEtcd(o.dir)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	server, err := newAPIServer(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	if err := awaitEtcd(etcd); err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	s := newServers()
	go func() { s.end("etcd", <-etcd.Err()) }()
	go func() { s.end("API server", runAPIServer(ctx, server, o.controllers, o.credentials)) }()
	go func() { s.ready <- awaitReady(ctx, server.GenericAPIServer.LoopbackClientConfig) }()
	return s, nil
}

// Tests do not use these APIs and admission plugins. They cause a fifth of the startup cost and of
// a cluster's cost at rest.
const (
	fewerGroups = "--runtime-config=storage.k8s.io/v1=false,resource.k8s.io/v1=false,certificates.k8s.io/v1=false," +
		"scheduling.k8s.io/v1=false,autoscaling/v1=false,autoscaling/v2=false,node.k8s.io/v1=false," +
		"flowcontrol.apiserver.k8s.io/v1=false"
	fewerPlugins = "--disable-admission-plugins=DefaultStorageClass,PersistentVolumeClaimResize,Priority," +
		"RuntimeClass,DefaultIngressClass,PodTopologyLabels,NodeDeclaredFeatureValidator,MutatingAdmissionPolicy"
)

// newAPIServer builds the API server without starting it. It must be called at most once per
// process, because feature gates and logging are global.
func newAPIServer(ctx context.Context, o serverOptions) (*aggregator.APIAggregator, error) {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	opts := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range opts.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	args := o.apiServerArgs()
	if !o.all {
		args = append(args, fewerGroups, fewerPlugins)
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	opts.SecureServing.Listener = o.listener
	opts.SecureServing.BindPort = o.listener.Addr().(*net.TCPAddr).Port
	globals := opts.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := globals.Set(); err != nil {
		return nil, err
	}
	if err := logsapi.ValidateAndApply(
		opts.Logs, globals.FeatureGateFor(compatibility.DefaultKubeComponent),
	); err != nil {
		return nil, err
	}
	completed, err := opts.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	config, err := app.NewConfig(completed)
	if err != nil {
		return nil, err
	}
	for _, generic := range []*genericapiserver.Config{
		config.KubeAPIs.ControlPlane.Generic, &config.ApiExtensions.GenericConfig.Config,
		&config.Aggregator.GenericConfig.Config,
	} {
		generic.EffectiveVersion = published{generic.EffectiveVersion}
	}
	if !o.all { // the API server for CRDs still uses its own schemas to merge applied objects
		config.KubeAPIs.ControlPlane.Generic.SkipOpenAPIInstallation = true
		config.Aggregator.GenericConfig.OpenAPIConfig = nil
	}
	chain, err := config.Complete()
	if err != nil {
		return nil, err
	}
	return app.CreateServerChain(chain)
}

// runAPIServer runs the API server until ctx ends. The server is ready when it serves the CRDs. The
// controllers start in the meantime.
func runAPIServer(ctx context.Context, server *aggregator.APIAggregator, controllers []string,
	credentials clusterCredentials,
) error {
	generic := server.GenericAPIServer
	if err := errors.Join(
		generic.AddPostStartHook("isthmus-crds", func(hook genericapiserver.PostStartHookContext) error {
			return installCRDs(hook, hook.LoopbackClientConfig)
		}),
		generic.AddPostStartHook("isthmus-controllers", func(hook genericapiserver.PostStartHookContext) error {
			return startControllers(hook, hook.LoopbackClientConfig, controllers, credentials)
		}),
	); err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}

// published replaces the version by one that clients can parse. Kubernetes' own builds set the
// version with linker flags, and without these flags the version is invalid.
type published struct{ compatibility.EffectiveVersion }

func (p published) Info() *apimachineryversion.Info {
	info := p.EffectiveVersion.Info()
	if v := kubernetesVersion(); v != "" {
		info.GitVersion = v
	} else {
		info.GitVersion = fmt.Sprintf("v%s.%s.0", info.Major, info.Minor)
	}
	return info
}

func kubernetesVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			return module.Version
		}
	}
	return ""
}
