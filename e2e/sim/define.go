package sim

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// definitionSteps change what the local cluster makes of the services.
var definitionSteps = []step{
	{"members", 12, func(w *world, _ *cluster, s string) string {
		o := w.federated(s)
		w.put(w.clusters[0], s, o)
		return fmt.Sprintf("%q and %q", o.Annotations[localDiscovery], o.Annotations[remoteDiscovery])
	}},
	{"mirror", 3, (*world).toggleMirror},
	{"definition", 1, (*world).toggleDefinition},
}

// federatedName is the Service that stands for a service of all clusters, mirrorName for one of one cluster.
func federatedName(s string) string          { return s + "-all" }
func mirrorName(s string, c *cluster) string { return s + "-" + c.name }

// federated makes a Service of most clusters' shares, in any order.
func (w *world) federated(s string) *corev1.Service {
	o := newService(federatedName(s))
	o.Annotations = map[string]string{}
	if !w.chance(4) {
		o.Annotations[localDiscovery] = s
	}
	var members []string
	for _, i := range w.rng.Perm(len(w.clusters) - 1) {
		if !w.chance(6) {
			members = append(members, s+"@"+w.clusters[i+1].name)
		}
	}
	// Always there, so that it stays a federated Service.
	o.Annotations[remoteDiscovery] = strings.Join(members, ",")
	return o
}

func mirror(s string, c *cluster) *corev1.Service {
	o := newService(mirrorName(s, c))
	o.Labels = map[string]string{remoteDiscovery: c.name, remoteService: s}
	return o
}

// mirrored returns the remote clusters whose share of the service has a mirror: two, if there are as many.
func (w *world) mirrored(s string) []*cluster {
	remote := w.clusters[1:]
	at := slices.Index(w.services, s) % len(remote)
	list := []*cluster{remote[at]}
	if next := remote[(at+1)%len(remote)]; next != remote[at] {
		list = append(list, next)
	}
	return list
}

// toggleMirror deletes a mirror, or makes one.
func (w *world) toggleMirror(_ *cluster, s string) string {
	local, of := w.clusters[0], pick(w, w.mirrored(s))
	if o := local.services[mirrorName(s, of)]; o != nil {
		w.delete(local, s, o)
		return o.Name + " deleted"
	}
	o := mirror(s, of)
	w.put(local, s, o)
	return o.Name + " created"
}

// toggleDefinition deletes the federated Service, or makes one.
func (w *world) toggleDefinition(_ *cluster, s string) string {
	local := w.clusters[0]
	if o := local.services[federatedName(s)]; o != nil {
		w.delete(local, s, o)
		return o.Name + " deleted"
	}
	o := w.federated(s)
	w.put(local, s, o)
	return o.Name + " created"
}
