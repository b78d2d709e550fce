package sim

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// step is one kind of thing that happens. do does it and says what it was; empty: there was nothing to do it with.
type step struct {
	name   string
	weight int
	do     func(*world, *cluster, string) string
}

// endpointSteps change what a cluster offers of a service.
var endpointSteps = []step{
	{"grow", 20, func(w *world, c *cluster, s string) string { return w.grow(c, s, 1+w.rng.IntN(4)) }},
	{"shrink", 14, (*world).shrink},
	{"readiness", 16, (*world).readiness},
	{"move an endpoint", 8, (*world).move},
	{"replace a pod", 10, (*world).replace},
	{"pod is late", 4, (*world).late},
	{"relabel a pod", 6, (*world).relabel},
	{"renumber the port", 2, (*world).renumber},
	{"drop a slice", 2, (*world).dropSlice},
	{"service", 2, (*world).toggleService},
	{"server", 3, (*world).toggleServer},
	{"owner", 3, (*world).toggleOwner},
	{"junk pods", 3, (*world).junk},
}

// slicePorts are the numbers that slices have for the Service's port.
var slicePorts = []int32{8080, 8081, 8082}

const sliceMost = 8 // endpoints of a slice

// grow adds Pods with endpoints, the Pod or the endpoint first.
func (w *world) grow(c *cluster, s string, n int) string {
	if c.services[s] == nil || len(c.slicesOf(s)) > 200 {
		return ""
	}
	l := look{meshed: !w.chance(5), silent: w.chance(10)}
	if w.chance(6) {
		l.opaque = fmt.Sprint(pick(w, slicePorts))
	}
	prefix := s + "-db"
	switch w.rng.IntN(3) {
	case 0:
		l.owner = owner("StatefulSet", prefix)
	default:
		l.hash = fmt.Sprintf("5f79f964%02x", w.rng.IntN(3))
		prefix = s + "-" + l.hash
		l.owner = owner("ReplicaSet", prefix)
		if c.replicaSets[prefix] == nil {
			w.put(c, s, newReplicaSet(prefix, s))
		}
	}
	podFirst := !w.chance(3)
	for range n {
		c.made++
		pod := newPod(fmt.Sprintf("%s-%d", prefix, c.made), s, l)
		slice := w.roomySlice(c, s)
		slice.Endpoints = append(slice.Endpoints, newEndpoint(pod.Name, w.newAddress(c), w.anyZone()))
		if podFirst {
			w.put(c, s, pod, slice)
		} else {
			w.put(c, s, slice, pod)
		}
	}
	return fmt.Sprintf("%d more pods of %s", n, prefix)
}

// sharedRange is what addresses begin with that several clusters may have.
const sharedRange = "172.16."

// newAddress returns an address that nothing in the cluster has. A few are of a range that all clusters use.
func (w *world) newAddress(c *cluster) string {
	if w.chance(20) {
		return fmt.Sprintf("%s%d.%d", sharedRange, c.made>>8%256, c.made%256)
	}
	return fmt.Sprintf("%d.%d.%d.%d", 10+c.number/200, c.number%200, c.made>>8%256, c.made%256)
}

func (w *world) anyZone() string { return pick(w, []string{"", "zone-1", "zone-2"}) }

// roomySlice returns a copy of a slice with room for one more, or a new one.
func (w *world) roomySlice(c *cluster, s string) *discoveryv1.EndpointSlice {
	all := c.slicesOf(s)
	for _, l := range all {
		if len(l.Endpoints) < sliceMost {
			return l.DeepCopy()
		}
	}
	for n := 0; ; n++ {
		l := newSlice(s, n)
		if c.slices[l.Name] == nil {
			if len(all) > 0 {
				l.Ports = all[0].Ports
			}
			return l
		}
	}
}

// anyEndpoint returns a copy of a slice that has endpoints, and which of them.
func (w *world) anyEndpoint(c *cluster, s string) (*discoveryv1.EndpointSlice, int) {
	all := slices.DeleteFunc(c.slicesOf(s), func(l *discoveryv1.EndpointSlice) bool { return len(l.Endpoints) == 0 })
	if len(all) == 0 {
		return nil, 0
	}
	l := pick(w, all).DeepCopy()
	return l, w.rng.IntN(len(l.Endpoints))
}

// shrink takes Pods and their endpoints away, the Pod or the endpoint first.
func (w *world) shrink(c *cluster, s string) string {
	n := 0
	for range 1 + w.rng.IntN(4) {
		l, i := w.anyEndpoint(c, s)
		if l == nil {
			break
		}
		pod := c.pods[l.Endpoints[i].TargetRef.Name]
		l.Endpoints = slices.Delete(l.Endpoints, i, i+1)
		if w.chance(3) && pod != nil {
			w.delete(c, s, pod)
			pod = nil
		}
		w.put(c, s, l)
		if pod != nil && !c.listed(s, pod.Name) {
			w.delete(c, s, pod)
		}
		n++
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d pods less", n)
}

// listed tells whether a slice of the service names the Pod.
func (c *cluster) listed(s, pod string) bool {
	return slices.ContainsFunc(c.slicesOf(s), func(l *discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(l.Endpoints, func(e discoveryv1.Endpoint) bool { return e.TargetRef.Name == pod })
	})
}

func (w *world) readiness(c *cluster, s string) string {
	l, i := w.anyEndpoint(c, s)
	if l == nil {
		return ""
	}
	ready := !*l.Endpoints[i].Conditions.Ready
	l.Endpoints[i].Conditions.Ready = &ready
	w.put(c, s, l)
	return fmt.Sprintf("%s ready=%v", l.Endpoints[i].Addresses[0], ready)
}

// move lists an endpoint in another slice and then takes it out of the one where it was: it is there all the time.
func (w *world) move(c *cluster, s string) string {
	from, i := w.anyEndpoint(c, s)
	if from == nil {
		return ""
	}
	all := slices.DeleteFunc(c.slicesOf(s), func(l *discoveryv1.EndpointSlice) bool { return l.Name == from.Name })
	if len(all) == 0 {
		return ""
	}
	to := pick(w, all).DeepCopy()
	to.Endpoints = append(to.Endpoints, from.Endpoints[i])
	w.put(c, s, to)
	moved := from.Endpoints[i].Addresses[0]
	from.Endpoints = slices.Delete(from.Endpoints, i, i+1)
	w.put(c, s, from)
	return fmt.Sprintf("%s from %s to %s", moved, from.Name, to.Name)
}

// replace deletes a Pod and makes another one of its name, as a StatefulSet does, at the same address.
func (w *world) replace(c *cluster, s string) string {
	l, i := w.anyEndpoint(c, s)
	if l == nil {
		return ""
	}
	pod := c.pods[l.Endpoints[i].TargetRef.Name]
	if pod == nil {
		return ""
	}
	made := newPod(pod.Name, s, look{meshed: !w.chance(5), owner: owner("StatefulSet", s+"-db")})
	w.delete(c, s, pod)
	w.put(c, s, made)
	return pod.Name
}

// late deletes a Pod that its slice goes on to name, or brings one back.
func (w *world) late(c *cluster, s string) string {
	l, i := w.anyEndpoint(c, s)
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

// relabel changes what a Pod says about itself.
func (w *world) relabel(c *cluster, s string) string {
	l, i := w.anyEndpoint(c, s)
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
		look.owner, look.hash = old.OwnerReferences[0], old.Labels[hashLabel]
	}
	if w.chance(2) {
		look.opaque = fmt.Sprint(pick(w, slicePorts))
	}
	w.put(c, s, newPod(name, s, look))
	return name
}

// renumber gives all slices of a service another number for the port, one by one.
func (w *world) renumber(c *cluster, s string) string {
	all := c.slicesOf(s)
	if len(all) == 0 {
		return ""
	}
	number := pick(w, slicePorts)
	for _, l := range all {
		l = l.DeepCopy()
		l.Ports[0].Port = &number
		w.put(c, s, l)
	}
	return fmt.Sprintf("port %d", number)
}

func (w *world) dropSlice(c *cluster, s string) string {
	all := c.slicesOf(s)
	if len(all) == 0 {
		return ""
	}
	l := pick(w, all)
	w.delete(c, s, l)
	return l.Name
}

// toggleService deletes a Service, whose slices stay, or makes it again.
func (w *world) toggleService(c *cluster, s string) string {
	if o := c.services[s]; o != nil {
		w.delete(c, s, o)
		return "deleted"
	}
	w.put(c, s, newService(s))
	return "created"
}

func (w *world) toggleServer(c *cluster, s string) string {
	if o := c.servers[s]; o != nil {
		w.delete(c, s, o)
		return "deleted"
	}
	port := pick(w, slicePorts)
	w.put(c, s, newServer(s, int64(port)))
	return fmt.Sprintf("port %d is opaque", port)
}

// toggleOwner deletes a ReplicaSet, whose Pods stay, or makes one.
func (w *world) toggleOwner(c *cluster, s string) string {
	if all := named(c.replicaSets, s+"-"); len(all) > 0 && w.chance(2) {
		o := pick(w, all)
		w.delete(c, s, o)
		return o.Name + " deleted"
	}
	name := fmt.Sprintf("%s-5f79f964%02x", s, w.rng.IntN(3))
	w.put(c, s, newReplicaSet(name, s))
	return name + " created"
}

// junk makes Pods that no slice names, or deletes them.
func (w *world) junk(c *cluster, s string) string {
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
