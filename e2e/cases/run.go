package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
	"isthmus/e2e/proxy"
)

// run is the execution of one case.
type run struct {
	runner  *Runner
	c       *Case
	life    context.Context // limits the lifetime of streams
	streams map[string]*stream
	faults  []string // faults of streams whose ids were used again

	namespaces map[string]map[string]bool // existing namespaces by cluster
	objects    map[string][]written       // written objects by cluster, in order of the first write

	written   map[string]seen    // noted objects by cluster, kind, namespace and name
	noted     map[string]float64 // noted sums by the regular expression of the metric
	verb      *verbRun           // the last run of the isthmus command, or nil
	another   *harness.Replica   // the second replica, or nil
	mcs       map[string]bool    // clusters with CRDs of the MCS API
	states    map[string]string  // states of the clusters that have been stopped or paused
	answering map[netip.AddrPort]*harness.LinkerdGateway
	flagged   bool // whether the replica runs with flags from the case
}

func newRun(life context.Context, runner *Runner, c *Case) *run {
	r := &run{
		runner: runner, c: c, life: life, streams: map[string]*stream{},
		namespaces: map[string]map[string]bool{}, objects: map[string][]written{},
		written: map[string]seen{}, noted: map[string]float64{}, mcs: map[string]bool{}, states: map[string]string{},
		answering: map[netip.AddrPort]*harness.LinkerdGateway{},
	}
	for name := range runner.writers {
		r.namespaces[name] = map[string]bool{}
	}
	return r
}

func (r *run) writer(cluster string) (*writer, error) {
	w := r.runner.writers[cluster]
	if w == nil {
		return nil, fmt.Errorf("no cluster %s", cluster)
	}
	return w, nil
}

// eachCluster calls a function for all clusters in parallel and joins the errors.
func (r *run) eachCluster(do func(*writer) error) error {
	errs := make([]error, len(clusterNames))
	var all sync.WaitGroup
	for i, name := range clusterNames {
		if w := r.runner.writers[name]; w != nil {
			all.Go(func() { errs[i] = do(w) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

func (r *run) ensure(ctx context.Context, w *writer, namespace string) error {
	if r.namespaces[w.Name][namespace] {
		return nil
	}
	err := w.ensureNamespace(ctx, namespace)
	r.namespaces[w.Name][namespace] = err == nil
	return err
}

// steps runs the script. The error contains the failed command.
func (r *run) steps(ctx context.Context) error {
	for _, s := range r.c.steps {
		r.runner.trace("%s: %s", s.pos, s.text)
		if err := s.do(ctx, r); err != nil {
			return fmt.Errorf("%s: %s\n%w", s.pos, s.text, err)
		}
	}
	if len(r.faults) > 0 {
		return fmt.Errorf("at the end of %s: %s", r.c.Name, strings.Join(r.faults, "; "))
	}
	for _, id := range slices.Sorted(maps.Keys(r.streams)) {
		if faults := r.streams[id].Snapshot().Faults; len(faults) > 0 {
			return fmt.Errorf("at the end of %s: stream %s was sent: %v", r.c.Name, id, faults)
		}
	}
	return nil
}

// apply writes an object to a cluster. The default namespace is that of the case.
func (r *run) apply(ctx context.Context, cluster string, from runtime.Object) error {
	w, err := r.writer(cluster)
	if err != nil {
		return err
	}
	o, err := kube.Unstructured(from)
	if err != nil {
		return err
	}
	resource, namespaced, err := w.Resource(o.GroupVersionKind())
	if err != nil {
		return err
	}
	if namespaced {
		if o.GetNamespace() == "" {
			o.SetNamespace(r.c.Name)
		}
		if err := r.ensure(ctx, w, o.GetNamespace()); err != nil {
			return err
		}
	} else {
		o.SetNamespace("")
	}
	if r.runner.opt.Beside && isLink(o) {
		return w.Apply(ctx, o) // other cases use the object too, so it is not noted
	}
	// The object is noted before the write, so that it is deleted even if the response is lost.
	r.note(cluster, written{resource, o.GetNamespace(), o.GetName()})
	return w.Apply(ctx, o)
}

func isLink(o *unstructured.Unstructured) bool {
	return o.GetKind() == "Secret" && o.GetNamespace() == kube.LinkNamespace
}

// note records an object for deletion at the end of the case.
func (r *run) note(cluster string, o written) {
	if !slices.Contains(r.objects[cluster], o) {
		r.objects[cluster] = append(r.objects[cluster], o)
	}
}

// own records an object that another program writes.
func (r *run) own(cluster, kind, namespace, name string) error {
	w, err := r.writer(cluster)
	if err != nil {
		return err
	}
	resource, namespaced, err := w.ResourceNamed(kind)
	if err != nil {
		return err
	}
	if !namespaced {
		namespace = ""
	}
	r.note(cluster, written{resource, namespace, name})
	return nil
}

func (r *run) delete(ctx context.Context, cluster, kind, namespace, name string, grace int64) error {
	w, err := r.writer(cluster)
	if err != nil {
		return err
	}
	if kind == "namespace" {
		delete(r.namespaces[cluster], name)
	}
	return w.delete(ctx, kind, namespace, name, grace)
}

// addressType returns the address type of an existing slice. The default is IPv4.
func (r *run) addressType(ctx context.Context, cluster, namespace, name string) (string, error) {
	w, err := r.writer(cluster)
	if err != nil {
		return "", err
	}
	o, err := w.In(slicesResource, namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "IPv4", nil
	}
	if err != nil {
		return "", fmt.Errorf("cluster %s: slice %s/%s: %w", cluster, namespace, name, err)
	}
	found, _, err := unstructured.NestedString(o.Object, "addressType")
	return found, err
}

// slices returns the EndpointSlices of a Service in the form that expect-slices compares.
func (r *run) slices(ctx context.Context, cluster, namespace, service string) (any, error) {
	w, err := r.writer(cluster)
	if err != nil {
		return nil, err
	}
	found, err := w.In(slicesResource, namespace).List(ctx, metav1.ListOptions{
		LabelSelector: "kubernetes.io/service-name=" + service,
	})
	if err != nil {
		return nil, fmt.Errorf("cluster %s: slices of %s/%s: %w", cluster, namespace, service, err)
	}
	all := []any{}
	for _, item := range found.Items {
		all = append(all, levelSlice(item.Object))
	}
	text, err := json.Marshal(sorted(all))
	if err != nil {
		return nil, err
	}
	var levelled any
	return levelled, json.Unmarshal(text, &levelled)
}

func (r *run) report() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(r.streams)) {
		s := r.streams[id]
		snap := s.Snapshot()
		phase := "open"
		if err := closedError(snap); err != nil {
			phase = err.Error()
		}
		fmt.Fprintf(&b, "stream %s (%s), %s, %d messages", id, s.kind, phase, snap.Messages)
		if !snap.Opened.IsZero() {
			fmt.Fprintf(&b, ", opened %s", snap.Opened.Format("15:04:05.000"))
		}
		b.WriteString("\n")
		recent := s.Recent()
		for _, m := range recent[max(0, len(recent)-12):] {
			fmt.Fprintf(&b, "  %s\n", m)
		}
		if snap.Kind == proxy.Get {
			fmt.Fprintf(&b, "  state: %d endpoints %v\n", snap.Get.Len(), clippedAddrs(snap))
		}
	}
	if g := r.runner.env.Gateway; g != nil {
		if log := g.Log(30); log != "" {
			fmt.Fprintf(&b, "the replica's log ends with:\n  %s\n", strings.ReplaceAll(log, "\n", "\n  "))
		}
	}
	if r.another != nil {
		fmt.Fprintf(
			&b,
			"the second replica's log ends with:\n  %s\n",
			strings.ReplaceAll(r.another.Log(30), "\n", "\n  "),
		)
	}
	return b.String()
}

func clippedAddrs(snap proxy.Snapshot) string {
	const limit = 20
	var texts []string
	for i, a := range snap.Get.Addrs() {
		if i == limit {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, a.String())
	}
	return strings.Join(texts, " ")
}

// end undoes all changes of the case: streams, faults, objects, namespaces and flags of the
// replica.
func (r *run) end(ctx context.Context) error {
	for _, s := range r.streams {
		s.end()
	}
	errs := []error{stopAnother(r), r.undoFaults(ctx)}
	if r.flagged { // the next case starts the replica, because that case may have flags too
		errs = append(errs, r.runner.env.Gateway.Halt())
	}
	errs = append(errs, r.eachCluster(func(w *writer) error { return r.removeAll(ctx, w) }))
	for _, s := range r.answering {
		s.Close()
	}
	if r.linked() && !r.flagged {
		// The next case may link another cluster with the same name. If the replica has not yet
		// seen the deletion, it would treat the new link as a credential rotation.
		errs = append(errs, harness.Pause(ctx, settleTime))
	}
	if _, disturbed := r.states[clusterNames[0]]; disturbed && !r.flagged {
		errs = append(errs, r.awaitLocal(ctx))
	}
	if len(r.mcs) > 0 {
		errs = append(errs, setMCS(ctx, r, noMCS, slices.Collect(maps.Keys(r.mcs))))
	}
	return errors.Join(errs...)
}

// awaitLocal waits until the replica watches all resources of the local cluster again. After a
// restart of the API server, optional resources such as ExternalWorkloads need more time, and the
// next case may use them.
func (r *run) awaitLocal(ctx context.Context) error {
	return harness.Poll(ctx, time.Minute, 100*time.Millisecond, func() error {
		page, err := harness.ReadClusters(ctx, r.runner.env.Gateway.MetricsAddr())
		for _, resource := range page.Local.Resources {
			if !resource.Synced || resource.Err != "" {
				err = errors.Join(err, fmt.Errorf(
					"the replica does not watch the local cluster's %s again: %s",
					resource.Resource,
					resource.Err,
				))
			}
		}
		if page.Writer != nil && len(page.Writer.Unread) > 0 {
			err = errors.Join(
				err,
				fmt.Errorf("the writer of EndpointSlices does not watch its resources again: %v", page.Writer.Unread),
			)
		}
		return err
	})
}

func (r *run) linked() bool {
	return slices.ContainsFunc(r.objects[clusterNames[0]], func(o written) bool {
		return o.resource.Resource == "secrets" && o.namespace == kube.LinkNamespace
	})
}

func (r *run) undoFaults(ctx context.Context) error {
	var errs []error
	for cluster := range r.states {
		f := r.runner.env.Clusters[cluster]
		_ = f.Resume() // fails if the cluster is stopped
		if r.runner.writers[cluster].answers(ctx) != nil {
			errs = append(errs, f.Restart(ctx))
		}
	}
	return errors.Join(errs...)
}

// removeAll deletes the objects of the case, newest first. It also deletes the slices that Isthmus
// has written and, unless a running replica deletes them, the Services. It does not delete the
// namespaces of the case, because that would take half as long as the case itself.
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

func (r *run) ownNamespaces(w *writer) iter.Seq[string] {
	return func(yield func(string) bool) {
		for namespace := range r.namespaces[w.Name] {
			if strings.HasPrefix(namespace, r.c.Name) && !yield(namespace) {
				return
			}
		}
	}
}

// faultCommands maps commands to their effect on an API server. An empty from state means any
// state.
var faultCommands = map[string]struct {
	from, to string
	do       func(context.Context, Cluster) error
}{
	"stop":   {"", "stopped", func(_ context.Context, k Cluster) error { return k.Kill() }},
	"start":  {"stopped", "running", func(ctx context.Context, k Cluster) error { return k.Restart(ctx) }},
	"pause":  {"", "paused", func(_ context.Context, k Cluster) error { return k.Pause() }},
	"resume": {"paused", "running", func(_ context.Context, k Cluster) error { return k.Resume() }},
}

// fault executes a fault command for a cluster. The end of the case undoes remaining faults.
func (r *run) fault(ctx context.Context, command, cluster string) error {
	k, ok := r.runner.env.Clusters[cluster]
	if !ok {
		return fmt.Errorf("no cluster %s", cluster)
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
