package clusterstore

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"isthmus/clusterstore/crd"
	"isthmus/federation"
)

// objects is everything there is, by resource and key: what the dumb twin reads.
type objects map[string]map[string]runtime.Object

func (o objects) set(resource, key string, x runtime.Object) {
	if o[resource] == nil {
		o[resource] = make(map[string]runtime.Object)
	}
	o[resource][key] = x
}

// dumbCount is how many objects there are to be followed.
func (o objects) dumbCount(resource string) (n int) {
	for _, x := range o[resource] {
		if s, ok := x.(*crd.Server); !ok || s.Invalid != "" || s.Spec.ProxyProtocol == "opaque" {
			n++
		}
	}
	return n
}

// dumbRead joins from scratch, straight from the objects.
func (o objects) dumbRead(service string, port uint16) (state federation.ServiceState, nodeLocal bool, parts map[string][]string) {
	svc, ok := o["services"]["ns/"+service].(*corev1.Service)
	if !ok {
		return federation.Missing, false, nil
	}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return federation.ExternalName, false, nil
	}
	nodeLocal = svc.Spec.InternalTrafficPolicy != nil && *svc.Spec.InternalTrafficPolicy == "Local"
	parts = make(map[string][]string)
	for key, x := range o["endpointslices"] {
		if list := o.dumbSlice(x.(*discoveryv1.EndpointSlice), svc, port); len(list) > 0 {
			parts[key] = list
		}
	}
	return federation.Present, nodeLocal, parts
}

func (o objects) dumbSlice(l *discoveryv1.EndpointSlice, svc *corev1.Service, port uint16) []string {
	name := l.Labels["kubernetes.io/service-name"]
	for _, owner := range l.OwnerReferences {
		if name == "" && owner.Kind == "Service" {
			name = owner.Name
		}
	}
	if name != svc.Name || l.AddressType == "FQDN" || len(l.Ports) == 0 {
		return nil
	}
	number := int32(port)
	for _, p := range svc.Spec.Ports {
		if p.Port != int32(port) {
			continue
		}
		number = 0
		for _, q := range l.Ports {
			if q.Name != nil && *q.Name == p.Name && number == 0 && q.Port != nil {
				number = *q.Port
			}
		}
		break
	}
	if number == 0 {
		return nil
	}
	seen := make(map[string]string)
	for _, e := range l.Endpoints {
		if e.Conditions.Ready != nil && !*e.Conditions.Ready {
			continue
		}
		for _, ip := range e.Addresses {
			if _, ok := seen[ip]; ok {
				continue
			}
			if text, ok := o.dumbEndpoint(e, name, fmt.Sprintf("%s:%d", ip, number)); ok {
				seen[ip] = text
			}
		}
	}
	var list []string
	for _, text := range seen {
		list = append(list, text)
	}
	sort.Strings(list)
	return list
}

func (o objects) dumbEndpoint(e discoveryv1.Endpoint, service, addr string) (string, bool) {
	text := addr + " namespace:ns service:" + service
	hints := ""
	if e.Hints != nil {
		var zones []string
		for _, z := range e.Hints.ForZones {
			zones = append(zones, z.Name)
		}
		sort.Strings(zones)
		hints = " hints=" + strings.Join(zones, "+")
	}
	if e.TargetRef == nil {
		return text + hints, true
	}
	if w, ok := o["externalworkloads"]["ns/"+e.TargetRef.Name].(*crd.ExternalWorkload); ok && e.TargetRef.Kind == "ExternalWorkload" {
		return o.dumbWorkload(w, e, text, addr, hints)
	}
	p, ok := o["pods"]["ns/"+e.TargetRef.Name].(*corev1.Pod)
	if e.TargetRef.Kind != "Pod" || !ok {
		return "", false
	}
	labels := map[string]string{"pod": p.Name, "serviceaccount": "default"}
	meshed := p.Labels[controlPlaneLabel] != ""
	if meshed {
		labels["control_plane_ns"] = "linkerd"
	}
	if len(p.OwnerReferences) == 1 {
		owner := p.OwnerReferences[0]
		labels[strings.ToLower(owner.Kind)] = owner.Name
		if rs, ok := o["replicasets"]["ns/"+owner.Name].(*metav1.PartialObjectMetadata); ok && owner.Kind == "ReplicaSet" && len(rs.OwnerReferences) == 1 {
			delete(labels, "replicaset")
			labels["deployment"] = rs.OwnerReferences[0].Name
		}
	}
	for _, name := range []string{"control_plane_ns", "deployment", "pod", "replicaset", "serviceaccount"} {
		if v, ok := labels[name]; ok {
			text += " " + name + ":" + v
		}
	}
	if e.Zone != nil {
		text += " zone=" + *e.Zone
	}
	text += " node=" + p.Spec.NodeName + " twin=ns/" + p.Name + hints
	if meshed {
		id := "default.ns.serviceaccount.identity.linkerd.cluster.local"
		text += " id=" + id + " sni=" + id + " meshed"
	}
	var ports []corev1.ContainerPort
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		ports = append(ports, c.Ports...)
	}
	policed := o.dumbPolicy(p.Labels, func(s crd.ServerSpec) *metav1.LabelSelector { return s.PodSelector }, func(port intstr.IntOrString) bool {
		return slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool {
			return p.Name == port.StrVal && (hasPort(addr, p.ContainerPort) || hasPort(addr, p.HostPort))
		})
	}, addr)
	if strings.HasSuffix(addr, ":25") || policed {
		text += " opaque"
	}
	if meshed {
		text += " inbound=4143"
	}
	return text, true
}

func (o objects) dumbWorkload(w *crd.ExternalWorkload, e discoveryv1.Endpoint, text, addr, hints string) (string, bool) {
	if w.Invalid != "" {
		return "", false
	}
	text += " external_workload:" + w.Name
	if len(w.OwnerReferences) == 1 {
		text += " " + strings.ToLower(w.OwnerReferences[0].Kind) + ":" + w.OwnerReferences[0].Name
	}
	if e.Zone != nil {
		text += " zone=" + *e.Zone
	}
	inbound, annotated := int32(4143), false
	list, ok := w.Annotations[opaqueAnnotation]
	for _, p := range w.Spec.Ports {
		if p.Name == "linkerd-proxy" {
			inbound = p.Port
		}
		annotated = annotated || p.Name == list && hasPort(addr, p.Port)
	}
	if !ok {
		annotated = strings.HasSuffix(addr, ":25")
	}
	policed := o.dumbPolicy(w.Labels, func(s crd.ServerSpec) *metav1.LabelSelector { return s.ExternalWorkloadSelector }, func(port intstr.IntOrString) bool {
		return slices.ContainsFunc(w.Spec.Ports, func(p crd.PortSpec) bool { return p.Name == port.StrVal && hasPort(addr, p.Port) })
	}, addr)
	text += " twin=workload/ns/" + w.Name + hints + " uri=" + w.Spec.MeshTLS.Identity + " sni=" + w.Spec.MeshTLS.ServerName + " meshed"
	if annotated || policed {
		text += " opaque"
	}
	return text + fmt.Sprint(" inbound=", inbound), true
}

func hasPort(addr string, port int32) bool { return strings.HasSuffix(addr, fmt.Sprintf(":%d", port)) }

// dumbPolicy tells whether a Server of namespace ns makes the port opaque.
func (o objects) dumbPolicy(labels map[string]string, selector func(crd.ServerSpec) *metav1.LabelSelector, named func(intstr.IntOrString) bool, addr string) bool {
	for _, x := range o["servers"] {
		s := x.(*crd.Server)
		of := selector(s.Spec)
		if s.Invalid != "" || s.Namespace != "ns" || s.Spec.ProxyProtocol != "opaque" || of == nil || len(of.MatchExpressions) > 0 {
			continue // the only expressions here are invalid ones
		}
		matches := true
		for key, value := range of.MatchLabels {
			matches = matches && labels[key] == value
		}
		if s.Spec.Port.Type == intstr.String {
			matches = matches && named(s.Spec.Port)
		} else {
			matches = matches && hasPort(addr, s.Spec.Port.IntVal)
		}
		if matches {
			return true
		}
	}
	return false
}
