package cluster

import (
	"fmt"
	"testing"
	"unsafe"
)

// TestPodsShare: Pods of StatefulSets or of Jobs, each with labels of its own, have
// one template, whatever their service accounts, and Pods of a ReplicaSet share
// everything, to save memory. fullTemplate has all facts again.
func TestPodsShare(t *testing.T) {
	w := newWorld(t, nil)
	for _, x := range []struct {
		kind   string
		traits bool // shared
	}{{"StatefulSet", false}, {"Job", false}, {"ReplicaSet", true}} {
		a, b := realPod(x.kind, 0), realPod(x.kind, 1)
		w.put(a, b)
		one, other := w.cache.pods.get("ns/"+a.Name), w.cache.pods.get("ns/"+b.Name)
		if one.facts.template != other.facts.template {
			t.Errorf("%s: two templates", x.kind)
		}
		if shared := unsafe.StringData(one.facts.traits) == unsafe.StringData(other.facts.traits); shared != x.traits {
			t.Errorf("%s: traits shared: %v", x.kind, shared)
		}
		far := realPod(x.kind, 200)
		w.put(far)
		third := w.cache.pods.get("ns/" + far.Name).facts
		if third.template != one.facts.template {
			t.Errorf("%s: a template for each service account", x.kind)
		}
		full, want := third.fullTemplate(), newLabelSet(far.Labels)
		if full.labels != want || full.owner != onlyOwner(far.OwnerReferences) ||
			full.serviceAccount != far.Spec.ServiceAccountName {
			t.Errorf(
				"%s: %q of %v as %q, want %q of %v",
				x.kind,
				full.labels,
				full.owner,
				full.serviceAccount,
				want,
				far.OwnerReferences,
			)
		}
	}
}

// TestOwnerOfJobPod: the name of a Job's Pod's owner shares memory with its own.
func TestOwnerOfJobPod(t *testing.T) {
	w := newWorld(t, nil)
	o := realPod("Job", 7)
	w.put(o)
	p := w.cache.pods.get("ns/" + o.Name)
	if p.owner.key != "ns/"+o.Labels["job-name"] || unsafe.StringData(p.owner.key) != unsafe.StringData(p.key) {
		t.Errorf("the owner %q has a name of its own", p.owner.key)
	}
}

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
	if n := len(w.cache.pods.shardOf("ns")); n > namespaces/10 {
		t.Errorf("%d Pods of %d", n, namespaces)
	}
	near := w.cache.pods.shardOf("ns")
	for _, pods := range w.cache.pods.shards {
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
