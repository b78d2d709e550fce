package sim

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"isthmus/e2e/harness/kube"
)

// definitionSteps change which Services the local cluster defines from the services.
var definitionSteps = []step{
	{"members", 12, func(w *world, _ *cluster, s string) string {
		o := keepPreference(federated(w, s), w.clusters[0].services[federatedName(s)])
		w.put(w.clusters[0], s, o)
		return fmt.Sprintf("%q and %q", o.Annotations[kube.LocalDiscovery], o.Annotations[kube.RemoteDiscovery])
	}},
	{"preference", 14, changePreference},
	{"mirror", 3, toggleMirror},
	{"definition", 1, toggleDefinition},
	{"opaque Service", 2, toggleOpaque},
	{"ServiceProfile", 4, changeProfile},
}

// federatedName returns the name of the federated Service of a service. mirrorName returns the name
// of its mirror of one cluster.
func federatedName(s string) string          { return s + "-all" }
func mirrorName(s string, c *cluster) string { return s + "-" + c.name }

// federated makes a federated Service with most clusters as members, in random order.
func federated(w *world, s string) *corev1.Service {
	local := ""
	if !w.chance(4) {
		local = s
	}
	var members []string
	for _, i := range w.rng.Perm(len(w.clusters) - 1) {
		if !w.chance(6) {
			members = append(members, s+"@"+w.clusters[i+1].name)
		}
	}
	return headless(kube.Federated(namespace, federatedName(s), local, members...))
}

func mirror(s string, c *cluster) *corev1.Service {
	return headless(kube.Mirror(namespace, mirrorName(s, c), c.name, s))
}

// mirrored returns the remote clusters that have a mirror of the service: two, if there are two.
func mirrored(w *world, s string) []*cluster {
	remote := w.clusters[1:]
	at := slices.Index(w.services, s) % len(remote)
	list := []*cluster{remote[at]}
	if next := remote[(at+1)%len(remote)]; next != remote[at] {
		list = append(list, next)
	}
	return list
}

// toggleMirror deletes or creates a mirror.
func toggleMirror(w *world, _ *cluster, s string) string {
	local, of := w.clusters[0], pick(w, mirrored(w, s))
	if o := local.services[mirrorName(s, of)]; o != nil {
		w.delete(local, s, o)
		return o.Name + " deleted"
	}
	o := mirror(s, of)
	w.put(local, s, o)
	return o.Name + " created"
}

// toggleDefinition deletes or creates the federated Service.
func toggleDefinition(w *world, _ *cluster, s string) string {
	local := w.clusters[0]
	if o := local.services[federatedName(s)]; o != nil {
		w.delete(local, s, o)
		return o.Name + " deleted"
	}
	o := federated(w, s)
	w.put(local, s, o)
	return o.Name + " created"
}

// toggleOpaque makes the port of a local Service opaque, or undoes it. Clients see the change in
// the profile.
func toggleOpaque(w *world, local *cluster, s string) string {
	o := local.services[s]
	if o == nil {
		return ""
	}
	made := keepPreference(newService(s), o)
	if o.Annotations[kube.OpaquePorts] == "" {
		if made.Annotations == nil {
			made.Annotations = map[string]string{}
		}
		made.Annotations[kube.OpaquePorts] = fmt.Sprint(kube.ServicePort)
	}
	w.put(local, s, made)
	return fmt.Sprintf("%q", made.Annotations)
}

// changeProfile deletes a ServiceProfile, creates one, or changes its routes.
func changeProfile(w *world, local *cluster, s string) string {
	of := pick(w, []string{s, federatedName(s), mirrorName(s, mirrored(w, s)[0])})
	if o := local.profiles[fullName(of)]; o != nil && w.chance(3) {
		w.delete(local, s, o)
		return of + " deleted"
	}
	routes := []string{"/a", "/b", "/c"}[:w.rng.IntN(4)]
	w.put(local, s, newProfile(of, routes))
	return fmt.Sprintf("%s has %q", of, routes)
}
