package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus/e2e/cluster"
	"isthmus/e2e/gateway"
	k8s "isthmus/e2e/object"
)

// StartConfig is what to run and what is running already.
type StartConfig struct {
	Dir          string            // where the clusters keep their state, and the isthmus command its kubeconfig
	Controlplane string            // the controlplane command; empty: program.Controlplane
	Kubeconfigs  map[string]string // by cluster: administrators' kubeconfigs of clusters that run; empty: they are started

	Gateway       string    // the isthmus command; empty: program.Isthmus
	Addr, Metrics string    // of a gateway that runs; empty: it is started
	Output        io.Writer // gets the log of a started gateway; may be nil
}

// Start returns an environment as cases expect it, and what ends that which it has started.
func Start(ctx context.Context, cfg StartConfig) (env Environment, stop func() error, err error) {
	var ending []func() error
	stop = func() error {
		var errs []error
		for i := len(ending) - 1; i >= 0; i-- {
			errs = append(errs, ending[i]())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	env.Clusters = map[string]Cluster{}
	kubeconfig := cfg.Kubeconfigs[ClusterNames[0]]
	if len(cfg.Kubeconfigs) > 0 {
		if env.Clusters, err = connect(cfg.Kubeconfigs); err != nil {
			return env, stop, err
		}
	} else {
		clusters, err := startClusters(ctx, cfg)
		if err != nil {
			return env, stop, err
		}
		for _, c := range clusters {
			env.Clusters[c.Name()] = c
			ending = append(ending, c.Close)
		}
		kubeconfig = clusters[0].Kubeconfig()
	}
	if err := prepare(ctx, env.Clusters[ClusterNames[0]].REST()); err != nil {
		return env, stop, err
	}
	if env.Tool, err = newTool(ctx, cfg.Gateway, cfg.Dir, env.Clusters); err != nil {
		return env, stop, err
	}
	switch {
	case cfg.Addr != "":
		env.Gateway = foreign{addr: cfg.Addr, metrics: cfg.Metrics}
	default:
		g, err := gateway.Start(ctx, gateway.Config{Binary: cfg.Gateway, Kubeconfig: kubeconfig, Output: cfg.Output,
			Args: []string{"-shutdown-delay=0s", "-drain=0s"}}) // cases restart it while they have streams
		if err != nil {
			return env, stop, err
		}
		env.Gateway = g
		ending = append(ending, g.Stop)
	}
	return env, stop, nil
}

func startClusters(ctx context.Context, cfg StartConfig) ([]*cluster.Cluster, error) {
	var cfgs []cluster.Config
	for _, name := range ClusterNames {
		cfgs = append(cfgs, cluster.Config{
			Name: name, Dir: filepath.Join(cfg.Dir, name), Binary: cfg.Controlplane,
			Controllers: []string{"namespace", "serviceaccount"}, // cases name owners that do not exist: no garbage collector
		})
	}
	return cluster.StartAll(ctx, cfgs...)
}

// running is a cluster that was not started by this run.
type running struct{ cfg *rest.Config }

func (r running) REST() *rest.Config { return rest.CopyConfig(r.cfg) }

func connect(kubeconfigs map[string]string) (map[string]Cluster, error) {
	clusters := map[string]Cluster{}
	for _, name := range ClusterNames {
		path, ok := kubeconfigs[name]
		if !ok {
			return nil, fmt.Errorf("there is no kubeconfig for %s", name)
		}
		cfg, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", name, err)
		}
		cfg.QPS, cfg.Burst = 1000, 2000
		clusters[name] = running{cfg}
	}
	return clusters, nil
}

// prepare writes what the gateway's own cluster holds in any case: the control plane's namespace, and one EndpointSlice.
func prepare(ctx context.Context, cfg *rest.Config) error {
	w, err := newWriter(ClusterNames[0], cfg)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.ensureNamespace(ctx, k8s.LinkNamespace); err != nil {
		return err
	}
	empty := k8s.Slice(k8s.LinkNamespace, "none", "empty")
	empty.Name, empty.Labels, empty.Ports = "empty", nil, nil
	return w.Apply(ctx, empty)
}

// foreign is a gateway that was not started by this run.
type foreign struct{ addr, metrics string }

func (f foreign) Addr() string                    { return f.addr }
func (f foreign) MetricsAddr() string             { return f.metrics }
func (f foreign) Log(int) string                  { return "" }
func (f foreign) Check(ctx context.Context) error { return gateway.Accepts(ctx, f.addr) }
