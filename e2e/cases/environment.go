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

type StartConfig struct {
	Dir          string    // directory for the clusters' state and the kubeconfigs of the isthmus command
	Controlplane string    // path of the controlplane command; the default is harness.Controlplane
	Gateway      string    // path of the isthmus command; the default is harness.Isthmus
	Output       io.Writer // optional writer for the replica's log
}

// Start starts an environment for cases. The returned function stops it.
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
	) // no delays, because cases restart the replica while streams are open
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
			}, // no garbage collector, because cases use owners that do not exist
		})
	}
	return harness.StartClusters(ctx, cfgs...)
}

// prepare writes the control plane's namespace and an EndpointSlice to the local cluster.
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
