package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
	"isthmus/local/lease"
)

const (
	// writeInterval is the minimum time between two syncs of a Service. A single change to a
	// Service reaches the slices after 50 ms, and a single change to a workload after 100 ms. A
	// thousand changes within a second cause only two or three writes.
	writeInterval = time.Second
	// If writes for a Service fail manyFailures times in a row, which takes about four minutes, the
	// writer logs an error.
	manyFailures = 8
	// readyCheck is the interval at which the writer checks whether ExternalWorkloads can be read.
	readyCheck = time.Second
	// If no more than maxChanges workloads in a namespace have changed, the writer searches for the
	// affected Services. If more workloads have changed, the writer syncs all Services in the
	// namespace, because the search would take as long as the syncs.
	maxChanges = 1000
	// In a namespace with more than manyServices Services, the search for affected Services runs at
	// most once a second, because it reads all Services of the namespace. With 5,000 Services,
	// frequent searches would keep a CPU core busy.
	manyServices = 500
)

// leadership is the state of a Writer while it holds the Lease. When the Lease is lost, the state
// is discarded.
type leadership struct {
	// fixed after construction
	*Writer
	lease lease.Lease
	loop  *lease.Loop[federation.ServiceID]

	changed federation.Latest[struct{}] // replaced when a pass has new work

	mu      sync.Mutex
	waiting map[federation.ServiceID]time.Time // start of the wait, by Service to sync
	begun   map[federation.ServiceID]time.Time // start of the sync, by Service being synced
	written map[federation.ServiceID]bool      // Services whose slices this leadership has written
	// The labels of changed workloads before and after each change, by namespace. Once a list has
	// more than maxChanges entries, no further entries are added to the list.
	changes map[string][]map[string]string
}

func newLeadership(w *Writer, held lease.Lease) *leadership {
	t := &leadership{
		Writer:  w,
		lease:   held,
		waiting: make(map[federation.ServiceID]time.Time),
		begun:   make(map[federation.ServiceID]time.Time),
		written: make(map[federation.ServiceID]bool), changes: make(map[string][]map[string]string),
	}
	t.loop = lease.NewLoop(lease.Options[federation.ServiceID]{
		Changed:  func() <-chan struct{} { _, changed := t.changed.Get(); return changed },
		Pass:     t.pass,
		MaxPause: writeInterval,
	})
	return t
}

// First, all Services that have workloads or slices are synced. After that, each change to an
// object causes a sync of the affected Services. The method returns once its context has ended and
// the last write has finished.
func (t *leadership) run(work context.Context) {
	select {
	case <-work.Done():
		return
	case <-t.cluster.Synced():
	}
	for _, w := range t.cluster.Workloads("") {
		t.workloadChanged(nil, w)
	}
	for svc := range t.cluster.AllManagedSlices() {
		t.mark(svc)
	}
	t.loop.Run(work)
}

func (t *leadership) mark(svc federation.ServiceID) {
	t.mu.Lock()
	if _, ok := t.waiting[svc]; !ok {
		t.waiting[svc] = time.Now()
		t.metrics.adds.Inc()
	}
	t.mu.Unlock()
	t.changed.Set(struct{}{})
}

// serviceChanged queues a Service if the Service may have slices for ExternalWorkloads. The
// goroutine that watches the cluster calls serviceChanged, so the cost of a call must not depend on
// the number of objects.
func (t *leadership) serviceChanged(svc federation.ServiceID) {
	if t.cluster.HasWorkloads(svc.Namespace) || t.mayHaveSlices(svc) || len(t.problems.Of(svc)) > 0 {
		t.mark(svc)
	}
}

// workloadChanged records a changed workload. The first argument is nil for a new workload, and the
// second argument is nil for a deleted workload. The affected Services are found later, in a task
// for the namespace, because a namespace may have thousands of workloads and Services.
func (t *leadership) workloadChanged(before, after *decode.ExternalWorkload) {
	t.mu.Lock()
	for i, w := range []*decode.ExternalWorkload{before, after} {
		if w == nil || i == 1 && before != nil && maps.Equal(before.Labels, after.Labels) {
			continue
		}
		if list := t.changes[w.Namespace]; len(list) <= maxChanges {
			t.changes[w.Namespace] = append(list, w.Labels)
		}
	}
	t.mu.Unlock()
	t.changed.Set(struct{}{})
}

// markConcerned queues each Service in the given namespace whose selector matches the old or new
// labels of a changed workload. The result reports whether the namespace has many Services.
func (t *leadership) markConcerned(namespace string) (long bool) {
	t.mu.Lock()
	list := t.changes[namespace]
	delete(t.changes, namespace)
	t.mu.Unlock()
	all := t.cluster.SelectingIn(namespace)
	for _, svc := range all {
		if len(list) > maxChanges ||
			slices.ContainsFunc(list, func(labels map[string]string) bool { return isSelected(svc, labels) }) {
			t.mark(nameOf(svc))
		}
	}
	return len(all) > manyServices
}

// isSelected reports whether a Service selects workloads with the given labels in its namespace. A
// Service without a selector selects no workloads.
func isSelected(svc *corev1.Service, labels map[string]string) bool {
	for key, want := range svc.Spec.Selector {
		if value, ok := labels[key]; !ok || value != want {
			return false
		}
	}
	return selects(svc)
}

func nameOf(svc *corev1.Service) federation.ServiceID {
	return federation.ServiceID{Namespace: svc.Namespace, Name: svc.Name}
}

// mayHaveSlices reports whether a Service may have slices with the writer's managed-by label. The
// cluster's cache may lack slices that this leader has just written.
func (t *leadership) mayHaveSlices(svc federation.ServiceID) bool {
	t.mu.Lock()
	written := t.written[svc]
	t.mu.Unlock()
	return written || t.cluster.ManagedSlices(svc) > 0
}

// The result contains one task for each Service to sync. For each namespace with changed workloads,
// the result also contains a task that finds and queues the affected Services. The key of a
// namespace's task has an empty Name.
func (t *leadership) pass() lease.Pass[federation.ServiceID] {
	if !t.ready() {
		return lease.Pass[federation.ServiceID]{Unknown: true, Due: time.Now().Add(readyCheck)}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var pass lease.Pass[federation.ServiceID]
	for namespace := range t.changes {
		pass.Tasks = append(pass.Tasks, lease.Task[federation.ServiceID]{
			Key: federation.ServiceID{Namespace: namespace}, Turn: namespace, Do: func(context.Context) lease.Outcome {
				return lease.Outcome{Nothing: true, Later: t.markConcerned(namespace)}
			},
		})
	}
	for svc := range t.waiting {
		pass.Tasks = append(pass.Tasks, lease.Task[federation.ServiceID]{
			Key: svc, Turn: svc.Namespace, Do: func(work context.Context) lease.Outcome { return t.do(work, svc) },
		})
	}
	return pass
}

// do syncs one Service. Because a task may start late, the method checks again whether
// ExternalWorkloads can be read. If the sync fails, the Service is queued again.
func (t *leadership) do(work context.Context, svc federation.ServiceID) lease.Outcome {
	if !t.ready() {
		return lease.Outcome{Again: true}
	}
	now := time.Now()
	t.mu.Lock()
	t.metrics.waited.Observe(now.Sub(t.waiting[svc]).Seconds())
	delete(t.waiting, svc)
	t.begun[svc] = now
	t.mu.Unlock()
	wrote, err := t.sync(work, svc)
	t.mu.Lock()
	delete(t.begun, svc)
	t.mu.Unlock()
	t.metrics.worked.Observe(time.Since(now).Seconds())
	switch {
	case work.Err() != nil:
		return lease.Outcome{Again: true}
	case err == nil:
		return lease.Outcome{Nothing: !wrote}
	}
	t.setFailure(err)
	t.metrics.retries.Inc()
	t.mark(svc)
	if apierrors.IsConflict(err) { // another writer was faster
		return lease.Outcome{Again: true}
	}
	if t.loop.History(svc).Failures+1 == manyFailures {
		t.log.Error("EndpointSlices cannot be written; still trying", zap.Stringer("service", svc), zap.Error(err))
	} else {
		t.log.Debug("EndpointSlices are not up to date yet", zap.Stringer("service", svc), zap.Error(err))
	}
	return lease.Outcome{Problem: err.Error()}
}

// sync writes a Service's slices until the slices are correct, and reports whether a slice was
// written. No write begins after the context has ended or the Lease has been lost.
//
// The slices are listed first, and only the listed versions are updated or deleted. For a Service
// that has no slices and selects no workloads, no requests are sent.
func (t *leadership) sync(work context.Context, name federation.ServiceID) (wrote bool, err error) {
	svc := t.cluster.Selecting(name)
	if svc == nil { // deleted; garbage collection removes its slices
		t.problems.Set(name, nil)
		t.mu.Lock()
		delete(t.written, name)
		t.mu.Unlock()
		return false, nil
	}
	selected := t.selected(svc)
	if len(selected) == 0 && !t.mayHaveSlices(name) {
		t.problems.Set(name, nil)
		return false, nil
	}
	existing, err := t.slicesOf(work, name)
	if err != nil {
		return false, err
	}
	p, left := newPlan(work, svc, selected, existing)
	if work.Err() != nil { // the plan may be incomplete
		return false, work.Err()
	}
	t.problems.Set(name, left.list())
	return len(p.create)+len(p.update)+len(p.move)+len(p.remove) > 0, t.execute(work, p, name)
}

// slicesOf lists those slices of a Service that carry the writer's managed-by label. Slices that
// are being deleted are omitted, because a finalizer may delay their deletion for a long time.
//
// The list is never stale, because the request does not set resourceVersion. The request sets no
// limit, because some API servers cannot serve limited requests from their cache.
func (t *leadership) slicesOf(
	work context.Context, svc federation.ServiceID,
) (list []*discoveryv1.EndpointSlice, err error) {
	ctx, stop := context.WithTimeout(work, requestTimeout)
	defer stop()
	of := labels.Set{discoveryv1.LabelServiceName: svc.Name, discoveryv1.LabelManagedBy: Mark}
	all, err := t.o.Client.EndpointSlices(svc.Namespace).List(ctx, metav1.ListOptions{LabelSelector: of.String()})
	if err != nil {
		return nil, fmt.Errorf("list the Service's EndpointSlices: %w", err)
	}
	for i := range all.Items {
		if s := &all.Items[i]; s.DeletionTimestamp == nil {
			list = append(list, s)
		}
	}
	return list, nil
}

func (t *leadership) selected(svc *corev1.Service) []*decode.ExternalWorkload {
	if !selects(svc) {
		return nil
	}
	list := slices.DeleteFunc(t.cluster.Workloads(svc.Namespace), func(w *decode.ExternalWorkload) bool {
		return !isSelected(svc, w.Labels)
	})
	slices.SortFunc(list, func(a, b *decode.ExternalWorkload) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// execute sends the writes of a plan, and usually stops at the first error. If the API server
// rejects a slice as invalid, the other writes continue, but no slices are deleted. As long as the
// API server rejects a slice, the endpoints that should move to this slice stay in their current
// slices.
func (t *leadership) execute(work context.Context, p plan, name federation.ServiceID) error {
	var refused []error
	versions := make(map[string]string) // by name of written slices; some slices are written twice
	for _, x := range []struct {
		op    operation
		list  []*discoveryv1.EndpointSlice
		takes bool // removes endpoints
	}{{creates, p.create, false}, {updates, p.update, false}, {updates, p.move, true}, {removes, p.remove, true}} {
		for _, s := range x.list {
			if work.Err() != nil {
				return work.Err()
			}
			if x.takes && len(refused) > 0 {
				if s = p.instead[s]; s == nil {
					continue
				}
			}
			if version, ok := versions[s.Name]; ok {
				s.ResourceVersion = version
			}
			now := s
			err := t.lease.Write(func(ctx context.Context) (err error) {
				t.mu.Lock()
				t.written[name] = true
				t.mu.Unlock()
				now, err = t.write(ctx, x.op, s)
				return err
			})
			switch {
			case err == nil:
				versions[now.Name] = now.ResourceVersion
				t.metrics.writes.WithLabelValues(string(x.op)).Inc()
			case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
				return nil // the namespace is being deleted with all its objects
			case apierrors.IsInvalid(err):
				refused = append(refused, fmt.Errorf("%s EndpointSlice %s: %w", x.op, s.Name, err))
			default:
				return fmt.Errorf("%s EndpointSlice %s: %w", x.op, s.Name, err)
			}
		}
	}
	return errors.Join(refused...)
}

// write creates, updates or deletes one slice, and returns the stored version of the slice. After a
// deletion, write returns the given slice.
func (t *leadership) write(
	ctx context.Context, op operation, s *discoveryv1.EndpointSlice,
) (*discoveryv1.EndpointSlice, error) {
	ctx, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	api := t.o.Client.EndpointSlices(s.Namespace)
	switch op {
	case removes:
		err := api.Delete(ctx, s.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion},
		})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return s, err
	case creates:
		return api.Create(ctx, s, metav1.CreateOptions{})
	default:
		return api.Update(ctx, s, metav1.UpdateOptions{})
	}
}

// underWay returns, in seconds, the total running time of the current syncs, and the running time
// of the longest one.
func (t *leadership) underWay() (sum, longest float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, at := range t.begun {
		took := time.Since(at).Seconds()
		sum, longest = sum+took, max(longest, took)
	}
	return sum, longest
}

const requestTimeout = 10 * time.Second

// operation is a kind of write. The operations are also the values of a metric label.
type operation string

const (
	creates operation = "create"
	updates operation = "update"
	removes operation = "delete"
)
