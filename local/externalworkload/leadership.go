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
	// writeInterval is how long a Service is not written again after a write. So a single change is written after 50
	// ms, one of a workload after 100 ms, and of a thousand within a second two or three writes remain.
	writeInterval = time.Second
	// manyFailures in a row, which take four minutes, are logged as an error.
	manyFailures = 8
	// readyCheck is the time between checks whether ExternalWorkloads can be read.
	readyCheck = time.Second
	// maxChanges is how many changes of the workloads of one namespace are matched against its Services. If there are
	// more at a time, all its Services are synced, which takes no longer.
	maxChanges = 1000
	// manyServices is beyond how many Services of a namespace, which are all read for it, changes of its workloads
	// are matched once a second only: one of 5,000 would else keep a core busy.
	manyServices = 500
)

// leadership is the time in which this replica holds the Lease: the Services to sync, and what has been written.
// It is dropped with the Lease.
type leadership struct {
	// fixed
	*Writer
	lease lease.Lease
	loop  *lease.Loop[federation.ServiceID]

	changed federation.Latest[struct{}] // replaced when a pass has something to do

	mu      sync.Mutex
	waiting map[federation.ServiceID]time.Time // to be synced, and since when
	begun   map[federation.ServiceID]time.Time // being synced, and since when
	written map[federation.ServiceID]bool      // of which this leadership has written slices
	// by namespace, labels that workloads have or had; with maxChanges+1 others have been left out
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

// run syncs all Services that have workloads or slices, and those that change, until work
// ends. It returns when the last writes have ended.
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

// mark has a Service synced.
func (t *leadership) mark(svc federation.ServiceID) {
	t.mu.Lock()
	if _, ok := t.waiting[svc]; !ok {
		t.waiting[svc] = time.Now()
		t.metrics.adds.Inc()
	}
	t.mu.Unlock()
	t.changed.Set(struct{}{})
}

// serviceChanged marks a Service if it may have to do with ExternalWorkloads. Most have not, and whoever
// follows the cluster waits for this: it takes no longer where there are many objects.
func (t *leadership) serviceChanged(svc federation.ServiceID) {
	if t.cluster.HasWorkloads(svc.Namespace) || t.mayHaveSlices(svc) || len(t.problems.Of(svc)) > 0 {
		t.mark(svc)
	}
}

// workloadChanged notes that a workload has changed; before is nil for a new one, after for one that was deleted.
// Which Services that concerns is found out in the namespace's turn: it may have many thousands of both.
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

// markConcerned marks the Services that select workloads of a namespace that have changed, as they were or as they
// are. It returns whether that has taken long.
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

// isSelected reports whether a Service selects workloads of its namespace that have these labels; none: it
// does not.
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

// mayHaveSlices reports whether a Service may have slices that are marked as ours. The cluster may not have
// seen yet what this leadership has written.
func (t *leadership) mayHaveSlices(svc federation.ServiceID) bool {
	t.mu.Lock()
	written := t.written[svc]
	t.mu.Unlock()
	return written || t.cluster.ManagedSlices(svc) > 0
}

// pass returns the Services that are to be synced, and for each namespace whose workloads have changed a task without
// a name that finds out which of its Services are; namespaces take turns.
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

// do syncs one Service, if ExternalWorkloads can still be read: since the pass some time may have gone by. What fails
// is to be synced again.
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
		t.log.Error("EndpointSlices can't be written; still trying", zap.Stringer("service", svc), zap.Error(err))
	} else {
		t.log.Debug("EndpointSlices are not as they should be yet", zap.Stringer("service", svc), zap.Error(err))
	}
	return lease.Outcome{Problem: err.Error()}
}

// sync makes a Service's slices what they should be, and returns whether it has written any. No write begins after
// the end of work, or once the Lease is not held. Slices are read anew first, and updated and deleted only
// in the version that was read. A Service that selects no workloads and has no slices takes no request.
func (t *leadership) sync(work context.Context, name federation.ServiceID) (wrote bool, err error) {
	svc := t.cluster.Selecting(name)
	if svc == nil { // deleted: garbage collection removes its slices
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
	if work.Err() != nil { // so the plan may be incomplete
		return false, work.Err()
	}
	t.problems.Set(name, left.list())
	return len(p.create)+len(p.update)+len(p.move)+len(p.remove) > 0, t.execute(work, p, name)
}

// slicesOf reads the slices of a Service that are marked as ours, without those that are being
// deleted, which may take long if they wait for a finalizer. The list is never an old one: it is
// asked for without a resourceVersion. It has no limit either, with which some API servers
// could not answer from their cache.
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

// selected lists the workloads that a Service selects, by name.
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

// execute executes a plan. The first error ends it, unless the API server refuses the slice itself: then
// the others are written, but none is deleted, and none loses endpoints that others were to have first.
func (t *leadership) execute(work context.Context, p plan, name federation.ServiceID) error {
	var refused []error
	versions := make(map[string]string) // by name, of slices that have been written: some are written twice
	for _, x := range []struct {
		op    operation
		list  []*discoveryv1.EndpointSlice
		takes bool // endpoints away
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
				return nil // the namespace is being deleted, with all that is in it
			case apierrors.IsInvalid(err):
				refused = append(refused, fmt.Errorf("%s EndpointSlice %s: %w", x.op, s.Name, err))
			default:
				return fmt.Errorf("%s EndpointSlice %s: %w", x.op, s.Name, err)
			}
		}
	}
	return errors.Join(refused...)
}

// write writes one slice, and returns it as the API server has it now, or had it until it was deleted.
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

// underWay returns for how long Services have been being synced, in seconds: all together, and the oldest.
func (t *leadership) underWay() (sum, longest float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, at := range t.begun {
		took := time.Since(at).Seconds()
		sum, longest = sum+took, max(longest, took)
	}
	return sum, longest
}

// requestTimeout bounds one request about slices.
const requestTimeout = 10 * time.Second

// operation is a kind of write, and its label in metrics.
type operation string

const (
	creates operation = "create"
	updates operation = "update"
	removes operation = "delete"
)
