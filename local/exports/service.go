package exports

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"isthmus/local/exports/plan"
)

// readService returns only those fields of a Service that are used by plans. The result does not
// share memory with the argument, because a decoder may reuse the argument.
func readService(o *corev1.Service) *plan.Service {
	s := &plan.Service{
		ID:          plan.ID{Namespace: strings.Clone(o.Namespace), Name: strings.Clone(o.Name)},
		UID:         strings.Clone(string(o.UID)),
		Deleting:    o.DeletionTimestamp != nil,
		Type:        strings.Clone(cmp.Or(string(o.Spec.Type), string(corev1.ServiceTypeClusterIP))),
		ClusterIPs:  texts(o.Spec.ClusterIPs),
		IPFamilies:  texts(o.Spec.IPFamilies),
		Selector:    len(o.Spec.Selector) > 0,
		Labels:      clone(o.Labels),
		Annotations: clone(o.Annotations),
		Traffic:     traffic(&o.Spec),
	}
	if p := o.Spec.IPFamilyPolicy; p != nil {
		s.IPFamilyPolicy = strings.Clone(string(*p))
	}
	if len(s.ClusterIPs) == 0 && o.Spec.ClusterIP != "" {
		s.ClusterIPs = []string{strings.Clone(o.Spec.ClusterIP)}
	}
	if len(o.OwnerReferences) > 0 {
		first := o.OwnerReferences[0]
		s.OwnerKind = strings.Clone(first.Kind)
		s.OwnerName = strings.Clone(first.Name)
		s.OwnerUID = strings.Clone(string(first.UID))
	}
	for i := range o.Spec.Ports {
		s.Ports = append(s.Ports, port(&o.Spec.Ports[i]))
	}
	return s
}

func port(p *corev1.ServicePort) plan.Port {
	q := plan.Port{
		Name:     strings.Clone(p.Name),
		Protocol: cmp.Or(string(p.Protocol), "TCP"),
		Target:   strings.Clone(p.TargetPort.String()),
	}
	q.Protocol = strings.Clone(q.Protocol)
	if p.Port > 0 && p.Port < 1<<16 {
		q.Number = uint16(p.Port)
	}
	if p.AppProtocol != nil {
		q.AppProtocol = strings.Clone(*p.AppProtocol)
	}
	switch n, err := strconv.Atoi(q.Target); {
	case p.TargetPort == (intstr.IntOrString{}): // unset in some clusters; this is the API's default
		q.Target = strconv.Itoa(int(q.Number))
	case err == nil: // "080" and "80" are the same port
		q.Target = strconv.Itoa(n)
	}
	return q
}

func traffic(s *corev1.ServiceSpec) (t plan.Traffic) {
	t.SessionAffinity = strings.Clone(cmp.Or(string(s.SessionAffinity), "None"))
	if c := s.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		t.AffinitySeconds = *c.ClientIP.TimeoutSeconds
	}
	if p := s.InternalTrafficPolicy; p != nil {
		t.InternalTrafficPolicy = strings.Clone(string(*p))
	}
	if d := s.TrafficDistribution; d != nil {
		t.TrafficDistribution = strings.Clone(*d)
	}
	return t
}

func texts[T ~string](list []T) (all []string) {
	for _, s := range list {
		all = append(all, strings.Clone(string(s)))
	}
	return all
}

func clone(m map[string]string) map[string]string {
	all := make(map[string]string, len(m))
	for k, v := range m {
		all[strings.Clone(k)] = strings.Clone(v)
	}
	return all
}

// writeService returns the Service to create, or the Service to write in place of the existing
// Service. Fields that plans do not use stay unchanged. The version is the API version of the
// ServiceImport that owns the Service, if any.
func writeService(next *plan.Service, have *corev1.Service, version string) *corev1.Service {
	o := &corev1.Service{}
	if have != nil {
		o = have.DeepCopy()
	} else {
		setIPs(o, next.ClusterIPs)
	}
	setFamilies(o, next)
	o.Namespace = next.Namespace
	o.Name = next.Name
	o.Labels = maps.Clone(next.Labels)
	o.Annotations = maps.Clone(next.Annotations)
	o.Spec.Type = corev1.ServiceType(next.Type)
	o.Spec.Ports = ports(next.Ports, o.Spec.Ports)
	if next.SessionAffinity != "" {
		o.Spec.SessionAffinity, o.Spec.SessionAffinityConfig = affinity(next.Traffic)
	}
	if next.OwnerKind == "ServiceImport" && (have == nil || readService(have).OwnerUID != next.OwnerUID) {
		owner := metav1.OwnerReference{
			APIVersion: mcs.GroupName + "/" + version,
			Kind:       next.OwnerKind,
			Name:       next.OwnerName,
			UID:        types.UID(next.OwnerUID),
		}
		others := slices.DeleteFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool {
			return r.Kind == owner.Kind
		})
		o.OwnerReferences = append([]metav1.OwnerReference{owner}, others...)
	}
	return o
}

// setFamilies sets the IP families and the IP family policy. If the policy changes to SingleStack,
// only the first IP is kept.
func setFamilies(o *corev1.Service, next *plan.Service) {
	policy := corev1.IPFamilyPolicy(next.IPFamilyPolicy)
	if policy == "" || o.Spec.IPFamilyPolicy != nil && *o.Spec.IPFamilyPolicy == policy {
		return
	}
	if o.Spec.IPFamilyPolicy != nil && policy == corev1.IPFamilyPolicySingleStack {
		o.Spec.ClusterIPs = o.Spec.ClusterIPs[:min(len(o.Spec.ClusterIPs), 1)]
	}
	o.Spec.IPFamilyPolicy = &policy
	o.Spec.IPFamilies = nil
	for _, f := range next.IPFamilies {
		o.Spec.IPFamilies = append(o.Spec.IPFamilies, corev1.IPFamily(f))
	}
}

// setIPs sets the IPs that a new Service requests. If ips is empty, the API server chooses the IPs.
func setIPs(o *corev1.Service, ips []string) {
	o.Spec.ClusterIP = ""
	o.Spec.ClusterIPs = nil
	if len(ips) > 0 {
		o.Spec.ClusterIP = ips[0]
		o.Spec.ClusterIPs = slices.Clone(ips)
	}
}

func affinity(t plan.Traffic) (corev1.ServiceAffinity, *corev1.SessionAffinityConfig) {
	if t.AffinitySeconds <= 0 {
		return corev1.ServiceAffinity(t.SessionAffinity), nil
	}
	return corev1.ServiceAffinity(t.SessionAffinity), &corev1.SessionAffinityConfig{
		ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &t.AffinitySeconds},
	}
}

// The result contains the planned ports. Fields that plans do not use are copied from the existing
// ports.
func ports(want []plan.Port, have []corev1.ServicePort) (all []corev1.ServicePort) {
	known := make(map[plan.Port]corev1.ServicePort, len(have))
	for i := range have {
		known[port(&have[i])] = have[i]
	}
	for i := range want {
		p := &want[i]
		q := known[*p]
		q.Name = p.Name
		q.Protocol = corev1.Protocol(p.Protocol)
		q.Port = int32(p.Number)
		q.AppProtocol = nil
		q.TargetPort = intstr.IntOrString{}
		if p.AppProtocol != "" {
			q.AppProtocol = &p.AppProtocol
		}
		if p.Target != "" {
			q.TargetPort = intstr.Parse(p.Target)
		}
		all = append(all, q)
	}
	return all
}
