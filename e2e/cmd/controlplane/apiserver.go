package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/compatibility"
	logsapi "k8s.io/component-base/logs/api/v1"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"isthmus/e2e/cmd/controlplane/internal/state"
)

type apiServerOptions struct {
	listener    net.Listener
	credentials state.Credentials
	dir         state.Dir
	all         bool // serve all API groups and /openapi
}

func (o apiServerOptions) args() []string {
	c, host := o.credentials, o.listener.Addr().(*net.TCPAddr).IP
	reconciler := "lease"
	if host.IsLoopback() {
		reconciler = "none" // an endpoint on loopback would be refused
	}
	args := []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=" + host.String(),
		"--advertise-address=" + host.String(),
		"--endpoint-reconciler-type=" + reconciler,
		"--kubelet-preferred-address-types=InternalIP", // no DNS has the names of nodes
		"--enable-priority-and-fairness=false",         // --max-requests-inflight bounds requests without its work
		"--cert-dir=" + o.dir.Certificates(),
		"--tls-cert-file=" + c.ServerCert,
		"--tls-private-key-file=" + c.ServerKey,
		"--client-ca-file=" + c.CA,
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.AccountKey,
		"--service-account-signing-key-file=" + c.AccountKey,
		"--service-cluster-ip-range=10.0.0.0/16,fd00:10::/108",
	}
	if !o.all {
		args = append(args, fewerGroups, fewerPlugins)
	}
	return args
}

// What no test has objects of, and the admission plugins that follow such objects: a fifth of what a start costs, and of what a
// cluster costs at rest.
const (
	fewerGroups = "--runtime-config=storage.k8s.io/v1=false,resource.k8s.io/v1=false,certificates.k8s.io/v1=false," +
		"scheduling.k8s.io/v1=false,autoscaling/v1=false,autoscaling/v2=false,node.k8s.io/v1=false,flowcontrol.apiserver.k8s.io/v1=false"
	fewerPlugins = "--disable-admission-plugins=DefaultStorageClass,PersistentVolumeClaimResize,Priority,RuntimeClass," +
		"DefaultIngressClass,PodTopologyLabels,NodeDeclaredFeatureValidator,MutatingAdmissionPolicy"
)

// newAPIServer builds the API server and starts nothing. It may be called once
// in a process, because feature gates and logging are global to it.
func newAPIServer(ctx context.Context, o apiServerOptions) (*aggregator.APIAggregator, error) {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	opts := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range opts.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(o.args()); err != nil {
		return nil, err
	}
	opts.SecureServing.Listener = o.listener
	opts.SecureServing.BindPort = o.listener.Addr().(*net.TCPAddr).Port
	globals := opts.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := globals.Set(); err != nil {
		return nil, err
	}
	if err := logsapi.ValidateAndApply(opts.Logs, globals.FeatureGateFor(compatibility.DefaultKubeComponent)); err != nil {
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
		config.KubeAPIs.ControlPlane.Generic, &config.ApiExtensions.GenericConfig.Config, &config.Aggregator.GenericConfig.Config,
	} {
		generic.EffectiveVersion = published{generic.EffectiveVersion}
	}
	if !o.all { // the API server of CRDs keeps its own, by which it merges what is applied
		config.KubeAPIs.ControlPlane.Generic.SkipOpenAPIInstallation = true
		config.Aggregator.GenericConfig.OpenAPIConfig = nil
	}
	chain, err := config.Complete()
	if err != nil {
		return nil, err
	}
	return app.CreateServerChain(chain)
}

// runAPIServer serves until ctx ends. It is ready when the CRDs are served; the
// controllers start meanwhile.
func runAPIServer(ctx context.Context, server *aggregator.APIAggregator, controllers []string, credentials state.Credentials) error {
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

// awaitReady waits until the API server answers /readyz with 200.
func awaitReady(ctx context.Context, loopback *rest.Config) error {
	client, err := kubernetes.NewForConfig(unlimited(loopback))
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		status := 0
		client.RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&status)
		return status == http.StatusOK, nil
	})
}

// unlimited returns the configuration without a client-side rate limit.
func unlimited(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	return cfg
}

// published is a version that clients can parse. A build sets Kubernetes'
// version by linker flags; without them it is no version at all.
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

// kubernetesVersion is that of the Kubernetes module in this binary.
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
