package cluster

import (
	"fmt"
	"testing"
)

// TestServerLooksAtFewPods: what happens to the Servers of a namespace is looked for in
// a small part of the cluster's Pods, in which all of the namespace are.
func TestServerLooksAtFewPods(t *testing.T) {
	w := newWorld(t, nil)
	const namespaces = 1000
	for i := range namespaces {
		p := aPod("p")
		p.Namespace = fmt.Sprint("ns-", i)
		w.put(p)
	}
	w.put(aPod("p", podLabel("app", "web")), aService("web"), aSlice("s", "web", "http=8080", "10.0.0.1 pod=p"))
	if n := len(w.state.pods.near("ns")); n > namespaces/10 {
		t.Errorf("%d Pods of %d", n, namespaces)
	}
	near := w.state.pods.near("ns")
	for _, pods := range w.state.pods.shards {
		for key := range pods {
			if near[key] == nil {
				pods[key] = nil // whoever looks at it panics
			}
		}
	}
	w.marked()
	w.put(aServer("s", "8080", "app=web"))
	if got := w.marked(); len(got) != 1 {
		t.Errorf("marked: %q", got)
	}
}
