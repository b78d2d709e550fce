package plan

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WantedService is a Service as it is to be.
type WantedService struct {
	ID
	Kind     Kind
	Of       ID     // the exports
	Turn     string // by which writes take turns: a cluster, empty for the local one, or SharedTurn
	Waits    bool   // the ServiceImport that is to own it does not exist yet, so it is planned but not written yet
	settings Settings
	group    group
	metadata metadata
	ports    []Port
	traffic  *Traffic // nil: not set
	ips      []string // to ask for when it is created
	owner    string   // the UID of the ServiceImport that owns it, which has the name Of; empty: none does
	adopts   *Service // what is adopted; nil: nothing is
}

// Mine reports whether a Service of that name, as it has just been read, may be written: it has the mark, or is one
// of Linkerd's that the plan adopts, as the plan knew it.
func (w *WantedService) Mine(have *Service) bool {
	if have.Deleting {
		return false
	}
	return w.settings.Marked(have) || w.adopts != nil && have.UID == w.adopts.UID && adoptable(have, w.group) &&
		maps.Equal(have.Labels, w.adopts.Labels) &&
		maps.Equal(worldAnnotations(have.Annotations), worldAnnotations(w.adopts.Annotations))
}

// known returns the annotations that worlds have of Services at least. What is read afresh has others too, of which
// Linkerd's service mirror copies all.
func worldAnnotations(annotations map[string]string) map[string]string {
	all := maps.Clone(annotations)
	maps.DeleteFunc(all, func(key, _ string) bool { return !inDomain(key, "linkerd.io", "isthmus.io") })
	return all
}

// Content is a text that differs for Services that are to be different, and is the same for equal ones.
func (w *WantedService) Content() string {
	s, _ := w.Over(nil)
	return hash(fmt.Sprintf("%q %q %q %+v %+v %s", s.ID, s.Labels, s.Annotations, s.Ports, s.Traffic, w.owner), 20)
}

// Over returns the Service as it is to be where there is have, which may be nil, and whether that differs. What
// others have set, labels and annotations among it, stays. [WantedService.Mine] returns whether have may be written
// at all.
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

// setFamilies sets the IP families of a Service. While IPv6 is not served, Services whose first
// family is IPv4 are SingleStack. An annotation remembers that Isthmus has set this policy, so that
// such Services become PreferDualStack again with IPv6. A policy that somebody else has set stays.
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

// WantedImport is a ServiceImport as it is to be.
type WantedImport struct {
	ID
	Turn     string // as of a WantedService
	settings Settings
	metadata metadata
	kind     string // its type
	ports    []Port
	ips      []string
	families []string
	traffic  *Traffic // nil: as it is
	clusters []string
	ready    metav1.Condition
}

// Mine reports whether a ServiceImport of that name, as it has just been read, may be written.
func (w *WantedImport) Mine(have *ServiceImport) bool {
	return !have.Deleting && w.settings.MarkedImport(have)
}

// Content is as that of a WantedService.
func (w *WantedImport) Content() string {
	i, _, _ := w.Over(nil)
	i.Conditions = []metav1.Condition{w.ready} // without a time
	return hash(fmt.Sprintf("%#v", i), 20)
}

// Over returns the ServiceImport as it is to be where there is have, which may be nil, and whether its metadata or spec
// differs, or its status.
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

// noSlices is the value of status.endpointSliceObjects that says that a ServiceImport has no
// EndpointSlices. Isthmus writes none.
const noSlices = "Absent"

// metadata is what an object is to have of labels and annotations.
type metadata struct {
	labels, annotations map[string]string // our own
	copies              copies
	keep                bool // what was copied stays: who decides about it is not known
	// preference applies although keep is set: the local cluster alone decides it.
	// If it is nil, who decides it is not known.
	preference map[string]string
	inherited  *copies // of what is adopted: what was copied; nil: nothing is adopted
}

// ownKeys are the labels and annotations that are ours alone: they go where they are not wanted.
var managedKeys = []string{
	markLabel, markAnnotation, mirroredLabel, clusterLabel, fqNameKey, versionKey,
	localDiscovery, remoteDiscovery, remoteService,
	importLabel, derivedKey, unlistedKey, absentKey,
}

// over returns the labels and annotations of an object that has these.
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
