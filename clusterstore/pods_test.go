package clusterstore

import (
	"testing"
	"unsafe"
)

// TestPodsShare: Pods of a StatefulSet, each with labels of its own, have one
// template, and Pods of a ReplicaSet have everything in common. Memory is what
// that is for, and the facts stay what they were.
func TestPodsShare(t *testing.T) {
	w := newWorld(t, nil)
	for _, x := range []struct {
		kind   string
		traits bool // shared
	}{{"StatefulSet", false}, {"ReplicaSet", true}} {
		a, b := realPod(x.kind, 0), realPod(x.kind, 1)
		w.put(a, b)
		one, other := w.state.pods["ns/"+a.Name], w.state.pods["ns/"+b.Name]
		if one.facts.template != other.facts.template {
			t.Errorf("%s: two templates", x.kind)
		}
		if shared := unsafe.StringData(one.facts.traits) == unsafe.StringData(other.facts.traits); shared != x.traits {
			t.Errorf("%s: traits shared: %v", x.kind, shared)
		}
		said := other.facts.said()
		if want := newLabelSet(b.Labels); said.labels != want || said.owner != onlyOwner(b.OwnerReferences) {
			t.Errorf("%s: %q of %v, want %q of %v", x.kind, said.labels, said.owner, want, b.OwnerReferences)
		}
	}
}

// TestLabelsOfOneself: a Pod that no slice names keeps the labels that only it has,
// so that a Server finds it when a slice names it later.
func TestLabelsOfOneself(t *testing.T) {
	w := newWorld(t, nil)
	one, other := realPod("StatefulSet", 0), realPod("StatefulSet", 1)
	w.put(one, other, aService("web"), aServer("s", "8080", "statefulset.kubernetes.io/pod-name="+other.Name))
	w.put(aSlice("s", "web", "http=8080", "10.0.0.1 pod="+one.Name, "10.0.0.2 pod="+other.Name))
	if got := w.opaqueAt(8080); got != "10.0.0.2:8080" {
		t.Errorf("opaque are %q", got)
	}
}
