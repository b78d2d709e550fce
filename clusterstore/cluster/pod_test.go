package cluster

import (
	"fmt"
	"testing"
	"unsafe"
)

// TestPodsShare checks which values Pods share to save memory. Pods of StatefulSets and Jobs share
// one template although each has its own labels. Pods of a ReplicaSet share everything.
// fullTemplate restores all facts.
func TestPodsShare(t *testing.T) {
	w := newWorld(t, nil)
	for _, x := range []struct {
		kind   string
		traits bool // whether traits are shared
	}{{"StatefulSet", false}, {"Job", false}, {"ReplicaSet", true}} {
		a, b := realPod(x.kind, 0), realPod(x.kind, 1)
		w.put(a, b)
		one, other := w.cache.pods.get("ns/"+a.Name), w.cache.pods.get("ns/"+b.Name)
		if one.facts.template != other.facts.template {
			t.Errorf("%s: the Pods have two templates", x.kind)
		}
		if shared := unsafe.StringData(one.facts.traits) == unsafe.StringData(other.facts.traits); shared != x.traits {
			t.Errorf("%s: traits shared: %v", x.kind, shared)
		}
		far := realPod(x.kind, 200)
		w.put(far)
		third := w.cache.pods.get("ns/" + far.Name).facts
		if third.template != one.facts.template {
			t.Errorf("%s: each service account has its own template", x.kind)
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

// TestOwnerOfJobPod checks that the name of a Job shares memory with the name of its Pod.
func TestOwnerOfJobPod(t *testing.T) {
	w := newWorld(t, nil)
	o := realPod("Job", 7)
	w.put(o)
	p := w.cache.pods.get("ns/" + o.Name)
	if p.owner.key != "ns/"+o.Labels["job-name"] || unsafe.StringData(p.owner.key) != unsafe.StringData(p.key) {
		t.Errorf("the name of the owner %q does not share memory", p.owner.key)
	}
}

// TestServerLooksAtFewPods checks that a change of a Server only examines a small shard of Pods.
// The shard contains all Pods of the Server's namespace.
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
		t.Errorf("a shard has %d Pods of %d", n, namespaces)
	}
	near := w.cache.pods.shardOf("ns")
	for _, pods := range w.cache.pods.shards {
		for key := range pods {
			if near[key] == nil {
				pods[key] = nil // an access to this Pod panics
			}
		}
	}
	w.marked()
	w.put(aServer("s", "8080", "app=web"))
	if got := w.marked(); len(got) != 1 {
		t.Errorf("marked: %q", got)
	}
}
