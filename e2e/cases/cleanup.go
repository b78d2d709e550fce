package cases

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// end undoes what the case did: streams, faults, objects, namespaces, flags of the gateway.
func (r *run) end(ctx context.Context) error {
	for _, s := range r.streams {
		s.end()
	}
	errs := []error{r.stopAnother(), r.undoFaults(ctx)}
	if r.flagged { // to start it without them is up to the next case, which may have some of its own
		errs = append(errs, r.runner.env.Gateway.Halt())
	}
	errs = append(errs, r.eachCluster(func(w *writer) error { return r.removeAll(ctx, w) }))
	for _, s := range r.answering {
		s.Close()
	}
	if r.linked() && !r.flagged {
		// The next case may link another cluster by the same name; to a gateway that has not seen the name go yet that
		// would be a rotation.
		errs = append(errs, harness.Pause(ctx, settleTime))
	}
	if _, disturbed := r.states[clusterNames[0]]; disturbed && !r.flagged {
		errs = append(errs, r.awaitLocal(ctx))
	}
	if len(r.mcs) > 0 {
		errs = append(errs, r.setMCS(ctx, noMCS, slices.Collect(maps.Keys(r.mcs))))
	}
	return errors.Join(errs...)
}

// awaitLocal waits until the gateway reads all of the local cluster again. After a restart of its API server that takes
// longer for kinds which the gateway can do without, such as ExternalWorkloads, and the next case may be about those.
func (r *run) awaitLocal(ctx context.Context) error {
	return harness.Poll(ctx, time.Minute, 100*time.Millisecond, func() error {
		page, err := harness.ReadClusters(ctx, r.runner.env.Gateway.MetricsAddr())
		for _, resource := range page.Local.Resources {
			if !resource.Synced || resource.Err != "" {
				err = errors.Join(err, fmt.Errorf(
					"the gateway does not read the local cluster's %s again: %s",
					resource.Resource,
					resource.Err,
				))
			}
		}
		if page.Writer != nil && len(page.Writer.Unread) > 0 {
			err = errors.Join(
				err,
				fmt.Errorf("the writer of EndpointSlices does not read again: %v", page.Writer.Unread),
			)
		}
		return err
	})
}

// linked reports whether the case has written link Secrets.
func (r *run) linked() bool {
	return slices.ContainsFunc(r.objects[clusterNames[0]], func(o written) bool {
		return o.resource.Resource == "secrets" && o.namespace == kube.LinkNamespace
	})
}

// undoFaults has the clusters answer that the case has stopped or paused.
func (r *run) undoFaults(ctx context.Context) error {
	var errs []error
	for cluster := range r.states {
		f := r.runner.env.Clusters[cluster]
		_ = f.Resume() // it may be stopped
		if r.runner.writers[cluster].answers(ctx) != nil {
			errs = append(errs, f.Restart(ctx))
		}
	}
	return errors.Join(errs...)
}

// removeAll deletes the case's objects, the newest first, and what the gateway has written: slices,
// and Services unless it runs and deletes them itself. The case's namespaces end with the run: to
// delete one costs half of what a case does.
func (r *run) removeAll(ctx context.Context, w *writer) error {
	var errs []error
	for _, o := range slices.Backward(r.objects[w.Name]) {
		if err := w.remove(ctx, o, 0); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	for namespace := range r.ownNamespaces(w) {
		errs = append(errs, w.removeEach(ctx, slicesResource, namespace, ""))
		if r.flagged {
			errs = append(errs, w.removeEach(ctx, servicesResource, namespace, "isthmus.io/written-by"))
		}
	}
	return errors.Join(errs...)
}

// ownNamespaces are the case's in a cluster.
func (r *run) ownNamespaces(w *writer) iter.Seq[string] {
	return func(yield func(string) bool) {
		for namespace := range r.namespaces[w.Name] {
			if strings.HasPrefix(namespace, r.c.Name) && !yield(namespace) {
				return
			}
		}
	}
}

// faultCommands are what commands do to clusters' API servers, from one state (empty: any) to another.
var faultCommands = map[string]struct {
	from, to string
	do       func(context.Context, Cluster) error
}{
	"stop":   {"", "stopped", func(_ context.Context, k Cluster) error { return k.Kill() }},
	"start":  {"stopped", "running", func(ctx context.Context, k Cluster) error { return k.Restart(ctx) }},
	"pause":  {"", "paused", func(_ context.Context, k Cluster) error { return k.Pause() }},
	"resume": {"paused", "running", func(_ context.Context, k Cluster) error { return k.Resume() }},
}

// fault does what a command says to a cluster, of which the end of the case undoes what is left.
func (r *run) fault(ctx context.Context, command, cluster string) error {
	k, ok := r.runner.env.Clusters[cluster]
	if !ok {
		return fmt.Errorf("there is no cluster %s", cluster)
	}
	c := faultCommands[command]
	if c.from != "" && c.from != r.states[cluster] {
		return fmt.Errorf("cluster %s is not %s", cluster, c.from)
	}
	r.states[cluster] = c.to
	return c.do(ctx, k)
}

func (r *run) restartGateway(ctx context.Context, args []string) error {
	r.flagged = len(args) > 0
	return r.runner.env.Gateway.Restart(ctx, args...)
}
