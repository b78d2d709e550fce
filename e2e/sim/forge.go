package sim

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// forgeSteps make a linked cluster offer addresses of local Pods, and delete and create such Pods.
var forgeSteps = []step{
	{"forge", 3, forge},
	{"local owner", 2, inLocal(toggleOwned)},
}

// ownedAddresses are the addresses of local Pods that come and go. Linked clusters offer them too.
var ownedAddresses = []string{sharedRange + "255.1", sharedRange + "255.2", sharedRange + "255.3"}

// toggleOwned deletes or creates the local Pod with a random one of ownedAddresses.
func toggleOwned(w *world, local *cluster) string {
	i := w.rng.IntN(len(ownedAddresses))
	name, address := fmt.Sprintf("owner-%d", i), ownedAddresses[i]
	if o := local.pods[name]; o != nil {
		w.delete(local, "", o)
		return name + " deleted"
	}
	o := newPod(name, "owner", look{})
	o.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}}
	w.put(local, "", o)
	return name + " created"
}

// owned reports whether a local Pod has the address. If so, Isthmus rejects it from linked
// clusters.
func owned(w *world, address netip.Addr) bool {
	i := slices.Index(ownedAddresses, address.String())
	return i >= 0 && w.clusters[0].pods[fmt.Sprintf("owner-%d", i)] != nil
}

// forge adds an address of ownedAddresses to a slice that claims to belong to another cluster.
func forge(w *world, c *cluster, s string) string {
	if c.number == 0 || c.services[s] == nil {
		return ""
	}
	c.made++
	pod := newPod(fmt.Sprintf("%s-forged-%d", s, c.made), s, look{meshed: true})
	slice, address := roomySlice(w, c, s), pick(w, ownedAddresses)
	if offers(c, s, address) {
		return ""
	}
	slice.Labels["mirror.linkerd.io/cluster-name"] = pick(w, w.clusters).name
	slice.Endpoints = append(slice.Endpoints, newEndpoint(address, pod.Name, anyZone(w)))
	w.put(c, s, pod, slice)
	return fmt.Sprintf("%s in %s", address, slice.Name)
}

// offers reports whether a slice of the service already contains the address.
func offers(c *cluster, s, address string) bool {
	return slices.ContainsFunc(c.slicesOf(s), func(l *discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(l.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Addresses[0] == address })
	})
}
