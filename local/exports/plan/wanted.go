package plan

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type WantedService struct {
	ID
	Kind     Kind
	Of       ID     // the name of the exports
	Turn     string // writes take turns by it: a cluster, empty for the local cluster, or SharedTurn
	Waits    bool   // whether it must not be written yet, because the ServiceImport that is to own it does not exist
	settings Settings
	group    group
	metadata metadata
	ports    []Port
	traffic  *Traffic // nil leaves the fields as they are
	ips      []string // requested when the Service is created
	owner    string   // the UID of the owning ServiceImport, whose name is Of; empty if there is none
	adopts   *Service // the Service to adopt, or nil
}

// Mine reports whether the plan is allowed to write a Service that the caller has just read from
// the API server. The plan is allowed to write a Service that is marked as belonging to this
// installation. The plan may also write a Service that it adopts from Linkerd's service mirror,
// unless the Service has changed since the plan was made. A Service that is being deleted is never
// written.
func (w *WantedService) Mine(have *Service) bool {
	if have.Deleting {
		return false
	}
	return w.settings.Marked(have) || w.adopts != nil && have.UID == w.adopts.UID && adoptable(have, w.group) &&
		maps.Equal(have.Labels, w.adopts.Labels) &&
		maps.Equal(worldAnnotations(have.Annotations), worldAnnotations(w.adopts.Annotations))
}

// worldAnnotations returns the annotations that the cache keeps in [World.Services]. The cache
// drops all other annotations, so a comparison with a Service that was just read must ignore these
// annotations.
func worldAnnotations(annotations map[string]string) map[string]string {
	all := maps.Clone(annotations)
	maps.DeleteFunc(all, func(key, _ string) bool { return !inDomain(key, "linkerd.io", "isthmus.io") })
	return all
}

// Content returns a hash of the planned Service.
func (w *WantedService) Content() string {
	s, _ := w.Over(nil)
	return hash(fmt.Sprintf("%q %q %q %+v %+v %s", s.ID, s.Labels, s.Annotations, s.Ports, s.Traffic, w.owner), 20)
}

// Over returns a copy of the given Service with the planned values applied, and reports whether the
// copy differs from the given Service. While w.Waits is true, Over always reports a difference. If
// the given Service is nil, Over returns the Service to create and reports a difference. Values,
// labels and annotations that other clients have set stay unchanged. Before a write, check with
// [WantedService.Mine] that the plan may write the Service.
func (w *WantedService) Over(have *Service) (next Service, differs bool) {
	if have != nil {
		next = *have
	} else {
		next.ClusterIPs = w.ips
	}
	next.ID = w.ID
	next.Type = "ClusterIP"
	next.Ports = w.ports
	next.Labels, next.Annotations = w.metadata.over(next.Labels, next.Annotations)
	if w.traffic != nil {
		next.SessionAffinity = w.traffic.SessionAffinity
		next.AffinitySeconds = w.traffic.AffinitySeconds
	}
	w.setFamilies(&next, have)
	if w.owner != "" {
		next.OwnerKind = "ServiceImport"
		next.OwnerName = w.Of.Name
		next.OwnerUID = w.owner
	}
	return next, have == nil || w.Waits || !equality.Semantic.DeepEqual(&next, have)
}

// setFamilies sets the IP families of a Service. While IPv6 is disabled, a Service whose first IP
// family is IPv4 gets the policy SingleStack, and an annotation records the change. Once IPv6 is
// enabled, a Service with the annotation SingleStackKey gets the policy PreferDualStack again. An
// IP family policy that another client has set stays unchanged.
func (w *WantedService) setFamilies(next, have *Service) {
	const single, dual = "SingleStack", "PreferDualStack"
	const yes = "true"
	ours := next.Annotations[SingleStackKey] == yes
	switch {
	case have == nil && w.settings.IPv4Only:
		next.IPFamilyPolicy = single
		next.IPFamilies = []string{"IPv4"}
		next.Annotations[SingleStackKey] = yes
	case have == nil:
		next.IPFamilyPolicy = dual
	case w.settings.IPv4Only && !ours && have.IPFamilyPolicy == dual && have.firstFamily() == "IPv4":
		next.IPFamilyPolicy = single
		next.Annotations[SingleStackKey] = yes
	case !w.settings.IPv4Only && ours && have.IPFamilyPolicy == single:
		next.IPFamilyPolicy = dual
		delete(next.Annotations, SingleStackKey)
	}
	if next.IPFamilyPolicy == single {
		next.IPFamilies = next.IPFamilies[:min(len(next.IPFamilies), 1)]
		if have != nil {
			next.ClusterIPs = next.ClusterIPs[:min(len(next.ClusterIPs), 1)]
		}
	}
}

type WantedImport struct {
	ID
	Turn     string // see [WantedService.Turn]
	settings Settings
	metadata metadata
	kind     string // the type of the ServiceImport
	ports    []Port
	ips      []string
	families []string
	traffic  *Traffic // nil leaves the fields as they are
	clusters []string
	ready    metav1.Condition
}

func (w *WantedImport) Mine(have *ServiceImport) bool {
	return !have.Deleting && w.settings.MarkedImport(have)
}

func (w *WantedImport) Content() string {
	i, _, _ := w.Over(nil)
	i.Conditions = []metav1.Condition{w.ready} // without a transition time
	return hash(fmt.Sprintf("%#v", i), 20)
}

// Over is like [WantedService.Over], but reports differences in the status separately.
func (w *WantedImport) Over(have *ServiceImport) (next ServiceImport, differs, statusDiffers bool) {
	if have != nil {
		next = *have
	}
	next.ID = w.ID
	next.Type = w.kind
	next.Ports = w.ports
	next.IPs = w.ips
	next.IPFamilies = w.families
	next.Clusters = w.clusters
	if w.traffic != nil {
		next.Traffic = *w.traffic
	}
	next.Labels, next.Annotations = w.metadata.over(next.Labels, next.Annotations)
	next.EndpointSliceObjects = noSlices
	next.Conditions = slices.Clone(next.Conditions)
	changed := meta.SetStatusCondition(&next.Conditions, w.ready)
	if have == nil {
		return next, true, true
	}
	differs = next.Type != have.Type || next.Traffic != have.Traffic || !slices.Equal(next.Ports, have.Ports) ||
		!slices.Equal(next.IPs, have.IPs) ||
		!slices.Equal(next.IPFamilies, have.IPFamilies) || !maps.Equal(next.Labels, have.Labels) ||
		!maps.Equal(next.Annotations, have.Annotations)
	changed = changed || next.EndpointSliceObjects != have.EndpointSliceObjects
	return next, differs, changed || !slices.Equal(next.Clusters, have.Clusters)
}

// In status.endpointSliceObjects, noSlices means that Isthmus does not write EndpointSlices for the
// ServiceImport.
const noSlices = "Absent"

type metadata struct {
	labels, annotations map[string]string // those that Isthmus sets itself
	copies              copies
	keep                bool // copied values stay, because the deciding member's export is not known
	// The local cluster's preference, or nil if the preference is unknown. If keep is true and the
	// preference is known, the plan updates the preference but leaves all other copied values
	// unchanged.
	preference map[string]string
	inherited  *copies // of an adopted object: what the service mirror copied; nil for other objects
}

// managedKeys are the keys of labels and annotations that only Isthmus sets. The plan removes
// managed keys from objects that should not have them.
var managedKeys = []string{
	markLabel, markAnnotation, mirroredLabel, clusterLabel, fqNameKey, versionKey,
	localDiscovery, remoteDiscovery, remoteService,
	importLabel, derivedKey, unlistedKey, absentKey,
}

func (d metadata) over(labels, annotations map[string]string) (nextLabels, nextAnnotations map[string]string) {
	copied := annotations[copiedKey]
	if d.inherited != nil {
		copied = record(d.inherited.labels, d.inherited.annotations)
	}
	nextLabels = maps.Clone(labels)
	nextAnnotations = maps.Clone(annotations)
	oldLabels, oldAnnotations := recorded(copied)
	switch {
	case d.keep && labels != nil && d.preference != nil:
		maps.DeleteFunc(oldAnnotations, func(key, _ string) bool { return !slices.Contains(preferenceKeys, key) })
		var ours map[string]string
		nextAnnotations, ours = overlay(annotations, d.preference, oldAnnotations)
		copied = rerecorded(copied, preferenceKeys, ours)
	case !d.keep || labels == nil:
		var ourLabels, ourAnnotations map[string]string
		nextLabels, ourLabels = overlay(labels, d.copies.labels, oldLabels)
		nextAnnotations, ourAnnotations = overlay(annotations, d.copies.annotations, oldAnnotations)
		copied = record(ourLabels, ourAnnotations)
	}
	delete(nextAnnotations, copiedKey)
	if copied != "" {
		nextAnnotations[copiedKey] = copied
	}
	for _, key := range managedKeys {
		delete(nextLabels, key)
		delete(nextAnnotations, key)
	}
	maps.Copy(nextLabels, d.labels)
	maps.Copy(nextAnnotations, d.annotations)
	return nextLabels, nextAnnotations
}
