package cases

import (
	"context"
	"errors"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// parseAnother is for: another-gateway CLUSTER [FLAG...].
func parseAnother(p *parser, args []string) (action, error) {
	return func(ctx context.Context, r *run) error { return r.startAnother(ctx, args[0], args[1:]) }, nil
}

// startAnother starts a gateway beside the one that is there, local to a cluster. It ends with the case.
func (r *run) startAnother(ctx context.Context, cluster string, flags []string) error {
	if r.another != nil {
		return errors.New("there is another gateway already")
	}
	w, err := r.writer(cluster)
	if err != nil {
		return err
	}
	if err := r.ensure(ctx, w, kube.LinkNamespace); err != nil {
		return err
	}
	tool := r.runner.env.Tool
	r.another, err = harness.StartReplica(ctx, harness.ReplicaConfig{
		Binary: tool.Path, Kubeconfig: tool.kubeconfig(cluster), Hostname: "isthmus-1", Args: append([]string{"-shutdown-delay=0s", "-drain=0s"}, flags...),
	})
	return err
}

func (r *run) stopAnother() error {
	if r.another == nil {
		return nil
	}
	return r.another.Stop()
}
