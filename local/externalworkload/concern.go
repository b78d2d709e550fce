package externalworkload

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/crd"
	"isthmus/federation"
)

// maxChanges is how many changes of the workloads of one namespace are matched against
// its Services. If there are more before a worker comes to them, all its Services are
// synced, which takes no longer.
const maxChanges = 1000

// changes are those of workloads that have not been matched against Services yet, by
// namespace. Its zero value has none, and it is safe for concurrent use.
type changes struct {
	mu   sync.Mutex
	list map[string][]map[string]string // labels of workloads; with maxChanges+1, others have been left out
}

// add adds labels that workloads of a namespace have or had.
func (c *changes) add(namespace string, labels map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list == nil {
		c.list = make(map[string][]map[string]string)
	}
	if l := c.list[namespace]; len(l) <= maxChanges {
		c.list[namespace] = append(l, labels)
	}
}

// take returns a namespace's changes, and forgets them.
func (c *changes) take(namespace string) []map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.list[namespace]
	delete(c.list, namespace)
	return l
}

// workloadsOf is the key in the queue for a namespace's changed workloads. No Service
// has an empty name.
func workloadsOf(namespace string) federation.ServiceID {
	return federation.ServiceID{Namespace: namespace}
}

// workloadChanged notes that a workload has changed; before is nil for a new one, after
// for one that was deleted. Which Services that concerns is for a worker to find out, in
// the namespace's turn: a namespace may have many thousands of both.
func (t *term) workloadChanged(before, after *crd.ExternalWorkload) {
	for i, w := range []*crd.ExternalWorkload{before, after} {
		if w == nil || i == 1 && before != nil && maps.Equal(before.Labels, after.Labels) {
			continue
		}
		t.changes.add(w.Namespace, w.Labels)
		t.mark(workloadsOf(w.Namespace))
	}
}

// queueConcerned adds the Services to the queue that select a namespace's changed workloads as
// they were or as they are.
func (t *term) queueConcerned(work context.Context, namespace string) {
	list := t.changes.take(namespace)
	if len(list) == 0 {
		return
	}
	for _, svc := range t.cluster.SelectingIn(namespace) {
		if work.Err() != nil {
			return
		}
		if len(list) > maxChanges || slices.ContainsFunc(list, func(labels map[string]string) bool { return isSelected(svc, labels) }) {
			t.queue.Add(nameOf(svc))
		}
	}
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
