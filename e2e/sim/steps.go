package sim

import (
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"isthmus/e2e/harness/kube"
)

// step is one kind of change. do makes the change and describes it. If the change is not possible,
// do returns "".
type step struct {
	name   string // under which the step is counted; if empty, the result of do is used
	weight int
	do     func(*world, *cluster, string) string
}

// inLocal makes a do function that acts on the local cluster.
func inLocal(act func(w *world, local *cluster) string) func(*world, *cluster, string) string {
	return func(w *world, _ *cluster, _ string) string { return act(w, w.clusters[0]) }
}

// endpointSteps change what a cluster offers for a service.
var endpointSteps = []step{
	{"grow", 20, func(w *world, c *cluster, s string) string { return grow(w, c, s, 1+w.rng.IntN(4)) }},
	{"shrink", 14, shrink},
	{"readiness", 16, changeReadiness},
	{"drain", 5, drain},
	{"move an endpoint", 8, move},
	{"replace a pod", 10, replace},
	{"delete or restore a pod", 8, late},
	{"relabel a pod", 6, relabel},
	{"renumber the port", 2, renumber},
	{"drop a slice", 2, dropSlice},
	{"service", 2, toggleService},
	{"server", 4, changeServer},
	{"owner", 3, toggleOwner},
	{"junk pods", 3, junk},
}

// slicePorts are the target ports that slices use for the Service's port.
var slicePorts = []int32{8080, 8081, 8082}

const sliceMost = 8 // endpoints of a slice, at most

// grow adds Pods with endpoints. Either the Pods or the endpoints are created first.
func grow(w *world, c *cluster, s string, n int) string {
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
		l.owner = kube.Owner("StatefulSet", prefix)
	default:
		l.hash = fmt.Sprintf("5f79f964%02x", w.rng.IntN(3))
		prefix = s + "-" + l.hash
		l.owner = kube.Owner("ReplicaSet", prefix)
		if c.replicaSets[prefix] == nil {
			w.put(c, s, kube.ReplicaSet(namespace, prefix, s))
		}
	}
	podFirst := !w.chance(3)
	for range n {
		c.made++
		pod := newPod(fmt.Sprintf("%s-%d", prefix, c.made), s, l)
		slice := roomySlice(w, c, s)
		slice.Endpoints = append(slice.Endpoints, newEndpoint(newAddress(w, c), pod.Name, anyZone(w)))
		if podFirst {
			w.put(c, s, pod, slice)
		} else {
			w.put(c, s, slice, pod)
		}
	}
	return fmt.Sprintf("%d more pods of %s", n, prefix)
}

// sharedRange is the prefix of addresses that several clusters may use.
const sharedRange = "172.16."

// newAddress returns a new address. A few addresses are in the range that all clusters use.
func newAddress(w *world, c *cluster) string {
	if w.chance(20) {
		return fmt.Sprintf("%s%d.%d", sharedRange, c.made>>8%256, c.made%256)
	}
	return fmt.Sprintf("%d.%d.%d.%d", 10+c.number/200, c.number%200, c.made>>8%256, c.made%256)
}

func anyZone(w *world) string { return pick(w, []string{"", "zone-1", "zone-2"}) }

// roomySlice returns a copy of a slice that is not full, or a new slice.
func roomySlice(w *world, c *cluster, s string) *discoveryv1.EndpointSlice {
	all := c.slicesOf(s)
	for _, l := range all {
		if len(l.Endpoints) < sliceMost {
			return l.DeepCopy()
		}
	}
	for n := 0; ; n++ {
		l := kube.Slice(namespace, s, fmt.Sprintf("%03d", n))
		if c.slices[l.Name] == nil {
			if len(all) > 0 {
				l.Ports = all[0].Ports
			}
			return l
		}
	}
}

// anyEndpoint returns a copy of a slice with endpoints, and the index of one of them.
func anyEndpoint(w *world, c *cluster, s string) (*discoveryv1.EndpointSlice, int) {
	all := slices.DeleteFunc(c.slicesOf(s), func(l *discoveryv1.EndpointSlice) bool { return len(l.Endpoints) == 0 })
	if len(all) == 0 {
		return nil, 0
	}
	l := pick(w, all).DeepCopy()
	return l, w.rng.IntN(len(l.Endpoints))
}

// shrink deletes Pods and their endpoints. Either the Pod or the endpoint is deleted first.
func shrink(w *world, c *cluster, s string) string {
	n := 0
	for range 1 + w.rng.IntN(4) {
		l, i := anyEndpoint(w, c, s)
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
		if pod != nil && !listed(c, s, pod.Name) {
			w.delete(c, s, pod)
		}
		n++
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d pods fewer", n)
}

// listed reports whether a slice of the service names the Pod.
func listed(c *cluster, s, pod string) bool {
	return slices.ContainsFunc(c.slicesOf(s), func(l *discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(l.Endpoints, func(e discoveryv1.Endpoint) bool { return e.TargetRef.Name == pod })
	})
}

func changeReadiness(w *world, c *cluster, s string) string {
	l, i := anyEndpoint(w, c, s)
	if l == nil {
		return ""
	}
	ready := !*l.Endpoints[i].Conditions.Ready
	l.Endpoints[i].Conditions.Ready = &ready
	w.put(c, s, l)
	return fmt.Sprintf("%s ready=%v", l.Endpoints[i].Addresses[0], ready)
}

// move adds an endpoint to another slice, and then removes it from its old slice. So the endpoint
// is listed all the time.
func move(w *world, c *cluster, s string) string {
	from, i := anyEndpoint(w, c, s)
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

// renumber changes the port number of all slices of a service, one by one.
func renumber(w *world, c *cluster, s string) string {
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

func dropSlice(w *world, c *cluster, s string) string {
	all := c.slicesOf(s)
	if len(all) == 0 {
		return ""
	}
	l := pick(w, all)
	w.delete(c, s, l)
	return l.Name
}

// toggleService deletes a Service but not its slices, or creates it again.
func toggleService(w *world, c *cluster, s string) string {
	if o := c.services[s]; o != nil {
		w.delete(c, s, o)
		return "deleted"
	}
	w.put(c, s, newService(s))
	return "created"
}

// changeServer deletes a Server, creates one, or changes its port.
func changeServer(w *world, c *cluster, s string) string {
	if o := c.servers[s]; o != nil && w.chance(2) {
		w.delete(c, s, o)
		return "deleted"
	}
	port := pick(w, slicePorts)
	w.put(c, s, kube.OpaqueServer(namespace, s, s, int64(port)))
	return fmt.Sprintf("port %d is opaque", port)
}
