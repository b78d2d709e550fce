package sim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"isthmus/e2e/harness/kube"
)

// replace deletes a Pod and creates another one with the same name and address, as a StatefulSet
// does.
func replace(w *world, c *cluster, s string) string {
	l, i := anyEndpoint(w, c, s)
	if l == nil {
		return ""
	}
	pod := c.pods[l.Endpoints[i].TargetRef.Name]
	if pod == nil {
		return ""
	}
	made := newPod(pod.Name, s, look{meshed: !w.chance(5), owner: kube.Owner("StatefulSet", s+"-db")})
	w.delete(c, s, pod)
	w.put(c, s, made)
	return pod.Name
}

// late deletes a Pod that a slice still names, or creates it again.
func late(w *world, c *cluster, s string) string {
	l, i := anyEndpoint(w, c, s)
	if l == nil {
		return ""
	}
	name := l.Endpoints[i].TargetRef.Name
	if pod := c.pods[name]; pod != nil {
		w.delete(c, s, pod)
		return "without " + name
	}
	w.put(c, s, newPod(name, s, look{meshed: true}))
	return "with " + name + " again"
}

// relabel recreates a Pod with other settings of its mesh proxy and other opaque ports.
func relabel(w *world, c *cluster, s string) string {
	l, i := anyEndpoint(w, c, s)
	if l == nil {
		return ""
	}
	name := l.Endpoints[i].TargetRef.Name
	old := c.pods[name]
	if old == nil {
		return ""
	}
	look := look{meshed: !w.chance(4), silent: w.chance(5)}
	if len(old.OwnerReferences) > 0 {
		look.owner, look.hash = old.OwnerReferences[0], old.Labels[kube.HashLabel]
	}
	if w.chance(2) {
		look.opaque = fmt.Sprint(pick(w, slicePorts))
	}
	w.put(c, s, newPod(name, s, look))
	return name
}

// toggleOwner deletes a ReplicaSet but not its Pods, or creates one.
func toggleOwner(w *world, c *cluster, s string) string {
	if all := named(c.replicaSets, s+"-"); len(all) > 0 && w.chance(2) {
		o := pick(w, all)
		w.delete(c, s, o)
		return o.Name + " deleted"
	}
	name := fmt.Sprintf("%s-5f79f964%02x", s, w.rng.IntN(3))
	w.put(c, s, kube.ReplicaSet(namespace, name, s))
	return name + " created"
}

// junk creates Pods that no slice names, or deletes them.
func junk(w *world, c *cluster, s string) string {
	all := named(c.pods, s+"-junk-")
	if len(all) > 20 {
		for _, p := range all {
			w.delete(c, s, p)
		}
		return "deleted"
	}
	var list []*corev1.Pod
	for range 5 {
		c.made++
		list = append(list, newPod(fmt.Sprintf("%s-junk-%d", s, c.made), s, look{meshed: w.chance(2)}))
	}
	for _, p := range list {
		w.put(c, s, p)
	}
	return "5 more"
}
