package cases

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"k8s.io/client-go/rest"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// StartConfig is what to run.
type StartConfig struct {
	Dir          string    // where the clusters keep their state, and the isthmus command its kubeconfig
	Controlplane string    // the controlplane command; empty: harness.Controlplane
	Gateway      string    // the isthmus command; empty: harness.Isthmus
	Output       io.Writer // gets the log of the gateway; may be nil
}

// Start returns an environment as cases expect it, and what ends it.
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
	clusters, err := startClusters(ctx, cfg)
	if err != nil {
		return env, stop, err
	}
	env.Clusters = map[string]Cluster{}
	for _, c := range clusters {
		env.Clusters[c.Name()] = c
		ending = append(ending, c.Close)
	}
	if err := prepare(ctx, env.Clusters[clusterNames[0]].REST()); err != nil {
		return env, stop, err
	}
	if env.Tool, err = newTool(ctx, cfg.Gateway, cfg.Dir, env.Clusters); err != nil {
		return env, stop, err
	}
	g, err := harness.StartReplica(
		ctx,
		harness.ReplicaConfig{Binary: cfg.Gateway, Kubeconfig: clusters[0].Kubeconfig(), Output: cfg.Output,
			Args: []string{"-shutdown-delay=0s", "-drain=0s"}},
	) // cases restart it while they have streams
	if err != nil {
		return env, stop, err
	}
	env.Gateway = g
	ending = append(ending, g.Stop)
	return env, stop, nil
}

func startClusters(ctx context.Context, cfg StartConfig) ([]*harness.Cluster, error) {
	var cfgs []harness.ClusterConfig
	for _, name := range clusterNames {
		cfgs = append(cfgs, harness.ClusterConfig{
			Name: name, Dir: filepath.Join(cfg.Dir, name), Binary: cfg.Controlplane,
			Controllers: []string{
				"namespace",
				"serviceaccount",
			}, // cases name owners that do not exist: no garbage collector
		})
	}
	return harness.StartClusters(ctx, cfgs...)
}

// prepare writes what the gateway's own cluster holds in any case: the control plane's namespace,
// and one EndpointSlice.
func prepare(ctx context.Context, cfg *rest.Config) error {
	w, err := newWriter(clusterNames[0], cfg)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.ensureNamespace(ctx, kube.LinkNamespace); err != nil {
		return err
	}
	empty := kube.Slice(kube.LinkNamespace, "none", "empty")
	empty.Name, empty.Labels, empty.Ports = "empty", nil, nil
	return w.Apply(ctx, empty)
}
