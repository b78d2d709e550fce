package externalworkload

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/clusterstore/crd"
)

// maxChanges is how many changes of the workloads of one namespace are matched against
// its Services. If there are more before a worker comes to them, all its Services are
// synced, which takes no longer.
const maxChanges = 1000

// workloadChange is one that may concern Services.
type workloadChange struct {
	before, after *crd.ExternalWorkload // nil: there was none, there is none
	contents      bool                  // it concerns all Services that select the workload
}

// changes are those of workloads whose Services have not been looked for yet, by
// namespace. Its zero value has none, and it is safe for concurrent use.
type changes struct {
	mu   sync.Mutex
	list map[string][]workloadChange // with maxChanges+1, others have been left out
}

func (c *changes) add(namespace string, x workloadChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list == nil {
		c.list = make(map[string][]workloadChange)
	}
	if l := c.list[namespace]; len(l) <= maxChanges {
		c.list[namespace] = append(l, x)
	}
}

// take returns a namespace's changes, and forgets them.
func (c *changes) take(namespace string) []workloadChange {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.list[namespace]
	delete(c.list, namespace)
	return l
}

// workloadsOf is the key in the queue for a namespace's changed workloads. No Service
// has an empty name.
func workloadsOf(namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace}
}

// workloadChanged notes that a workload has changed; before is nil for a new one, after
// for one that was deleted. Which Services that concerns is for a worker to find out, in
// the namespace's turn: a namespace may have many thousands of both.
func (t *term) workloadChanged(before, after *crd.ExternalWorkload) {
	one := after
	if after == nil {
		one = before
	}
	x := workloadChange{before, after, before == nil || after == nil || contentsDiffer(before, after)}
	if !x.contents && maps.Equal(before.Labels, after.Labels) {
		return
	}
	t.changes.add(one.Namespace, x)
	t.queue.AddAfter(workloadsOf(one.Namespace), batchDelay)
}

// queueConcerned adds the Services to the queue that a namespace's changed workloads
// concern.
func (t *term) queueConcerned(work context.Context, namespace string) {
	list := t.changes.take(namespace)
	if len(list) == 0 {
		return
	}
	for _, svc := range inNamespace[*corev1.Service](t.services, namespace) {
		if work.Err() != nil {
			return
		}
		if len(list) > maxChanges || slices.ContainsFunc(list, func(x workloadChange) bool { return x.concerns(svc) }) {
			t.queue.Add(nameOf(svc))
		}
	}
}

// concerns reports whether the change makes slices of the Service differ.
func (x *workloadChange) concerns(svc *corev1.Service) bool {
	was, is := isSelected(svc, x.before), isSelected(svc, x.after)
	return was != is || is && x.contents
}

// contentsDiffer reports whether a change of a workload changes its endpoints,
// whatever Services select it.
func contentsDiffer(a, b *crd.ExternalWorkload) bool {
	return a.UID != b.UID || a.Invalid != b.Invalid || zoneOf(a) != zoneOf(b) || isReady(a) != isReady(b) ||
		!slices.Equal(a.Spec.WorkloadIPs, b.Spec.WorkloadIPs) || !slices.Equal(a.Spec.Ports, b.Spec.Ports)
}

// isSelected reports whether a Service selects a workload of its namespace; false
// for no workload.
func isSelected(svc *corev1.Service, w *crd.ExternalWorkload) bool {
	if w == nil || !selects(svc) {
		return false
	}
	for key, want := range svc.Spec.Selector {
		if value, ok := w.Labels[key]; !ok || value != want {
			return false
		}
	}
	return true
}
