package exports

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/local/exports/plan"
)

// maxClusters and maxConditions limit how much is read from a status that other users may have
// written.
const (
	maxClusters   = 256
	maxConditions = 32
)

// readServiceExport returns the fields of a ServiceExport that plans use. For an export of the
// local cluster, the result includes the conditions. The result does not share memory with the
// argument.
func readServiceExport(o *mcs.ServiceExport, local bool) *plan.ServiceExport {
	e := &plan.ServiceExport{
		UID: strings.Clone(string(o.UID)), Created: o.CreationTimestamp.Time, Generation: o.Generation,
		Labels: clone(o.Spec.ExportedLabels), Annotations: clone(o.Spec.ExportedAnnotations),
	}
	if local {
		e.Conditions = conditions(o.Status.Conditions, "Valid", "Ready", "Conflict")
	}
	return e
}

// readServiceImport returns the fields of a ServiceImport that plans use. The result does not share
// memory with the argument.
func readServiceImport(o *mcs.ServiceImport) *plan.ServiceImport {
	i := &plan.ServiceImport{
		ID:      plan.ID{Namespace: strings.Clone(o.Namespace), Name: strings.Clone(o.Name)},
		UID:     strings.Clone(string(o.UID)),
		Created: o.CreationTimestamp.Time, Deleting: o.DeletionTimestamp != nil,
		Labels: clone(o.Labels), Annotations: clone(o.Annotations),
		Type: strings.Clone(string(o.Spec.Type)), IPs: texts(o.Spec.IPs), IPFamilies: texts(o.Spec.IPFamilies),
		Traffic: traffic(&corev1.ServiceSpec{
			SessionAffinity: o.Spec.SessionAffinity, SessionAffinityConfig: o.Spec.SessionAffinityConfig,
			InternalTrafficPolicy: o.Spec.InternalTrafficPolicy, TrafficDistribution: o.Spec.TrafficDistribution,
		}),
		EndpointSliceObjects: strings.Clone(string(o.Status.EndpointSliceObjects)),
		Conditions:           conditions(o.Status.Conditions, "Ready"),
	}
	for _, p := range o.Spec.Ports {
		q := port(&corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port})
		q.Target = ""
		i.Ports = append(i.Ports, q)
	}
	for _, c := range o.Status.Clusters[:min(len(o.Status.Clusters), maxClusters)] {
		i.Clusters = append(i.Clusters, strings.Clone(c.Cluster))
	}
	return i
}

// manager returns the first field manager in an object's managedFields, or "". The result is
// truncated to the maximum valid length.
func manager(o metav1.Object) string {
	for _, f := range o.GetManagedFields() {
		if f.Subresource == "" {
			return strings.Clone(f.Manager[:min(len(f.Manager), 128)])
		}
	}
	return ""
}

// writeServiceImport returns a copy of the existing ServiceImport with the planned fields. If no
// ServiceImport exists, the result is a new ServiceImport. Fields that plans do not use stay
// unchanged.
func writeServiceImport(next *plan.ServiceImport, have *mcs.ServiceImport) *mcs.ServiceImport {
	o := &mcs.ServiceImport{}
	if have != nil {
		o = have.DeepCopy()
	}
	o.Namespace = next.Namespace
	o.Name = next.Name
	o.Labels = maps.Clone(next.Labels)
	o.Annotations = maps.Clone(next.Annotations)
	s := &o.Spec
	s.Type = mcs.ServiceImportType(next.Type)
	s.IPs = next.IPs
	s.IPFamilies = nil
	for _, f := range next.IPFamilies {
		s.IPFamilies = append(s.IPFamilies, corev1.IPFamily(f))
	}
	s.SessionAffinity, s.SessionAffinityConfig = affinity(next.Traffic)
	s.InternalTrafficPolicy = nil
	s.TrafficDistribution = nil
	if p := corev1.ServiceInternalTrafficPolicy(next.InternalTrafficPolicy); p != "" {
		s.InternalTrafficPolicy = &p
	}
	if next.TrafficDistribution != "" {
		s.TrafficDistribution = &next.TrafficDistribution
	}
	s.Ports = []mcs.ServicePort{} // never null, because the field is required
	for _, p := range ports(next.Ports, nil) {
		s.Ports = append(s.Ports, mcs.ServicePort{
			Name:        p.Name,
			Protocol:    p.Protocol,
			AppProtocol: p.AppProtocol,
			Port:        p.Port,
		})
	}
	o.Status.EndpointSliceObjects = mcs.EndpointSliceObjectsStatus(next.EndpointSliceObjects)
	o.Status.Clusters = nil
	for _, c := range next.Clusters {
		o.Status.Clusters = append(o.Status.Clusters, mcs.ClusterStatus{Cluster: c})
	}
	for _, c := range next.Conditions { // keep other conditions, including unread ones
		i := slices.IndexFunc(o.Status.Conditions, func(have metav1.Condition) bool { return have.Type == c.Type })
		if i < 0 {
			o.Status.Conditions = append(o.Status.Conditions, c)
		} else {
			o.Status.Conditions[i] = c
		}
	}
	return o
}

// conditions returns up to maxConditions conditions, including all conditions of the given types.
func conditions(all []metav1.Condition, ours ...string) (list []metav1.Condition) {
	others := maxConditions - len(ours)
	for _, c := range all {
		if !slices.Contains(ours, c.Type) {
			if others == 0 {
				continue
			}
			others--
		}
		c.Type = strings.Clone(c.Type)
		c.Reason = strings.Clone(c.Reason)
		c.Message = strings.Clone(c.Message)
		c.Status = metav1.ConditionStatus(strings.Clone(string(c.Status)))
		list = append(list, c)
	}
	return list
}
