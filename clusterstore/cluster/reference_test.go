package cluster

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
)

// events makes random events in random order.
type events struct {
	*world
	all       objects // there are
	draw      func(t *rapid.T, resource string) (key string, o metav1.Object)
	resources []string // of the events; one that is listed several times comes more often
}

func (e *events) put(t *rapid.T, resource string) {
	key, o := e.draw(t, resource)
	e.all.set(resource, key, o)
	e.store(resource).Update(o)
}

func (e *events) drop(t *rapid.T, resource string) {
	key, o := e.draw(t, resource)
	delete(e.all[resource], key)
	e.store(resource).Delete(o)
}

func (e *events) relist(t *rapid.T, resource string) {
	delete(e.all, resource)
	for range rapid.IntRange(0, 3).Draw(t, "n") {
		key, o := e.draw(t, resource)
		e.all.set(resource, key, o)
	}
	var list []any
	for _, o := range e.all[resource] {
		list = append(list, o)
	}
	e.store(resource).Replace(list...)
}

// run makes events, checks after each, and removes all objects in the end.
func (e *events) run(t *rapid.T, check func(*rapid.T)) {
	for _, name := range []string{"services", "pods", "endpointslices", "servers", "pods", "externalworkloads",
		"endpointslices", "servers"} {
		e.put(t, name) // so that most steps find something to change
	}
	resource := rapid.SampledFrom(e.resources)
	t.Repeat(map[string]func(*rapid.T){
		"put":    func(t *rapid.T) { e.put(t, resource.Draw(t, "resource")) },
		"delete": func(t *rapid.T) { e.drop(t, resource.Draw(t, "resource")) },
		"relist": func(t *rapid.T) { e.relist(t, resource.Draw(t, "resource")) },
		"":       func(t *rapid.T) { e.evaluate(); check(t) },
	})
	for name := range e.all {
		e.store(name).Replace()
	}
}

// objects has all objects, by resource and key: what the reference reads.
type objects map[string]map[string]metav1.Object

func (o objects) set(resource, key string, x metav1.Object) {
	if o[resource] == nil {
		o[resource] = make(map[string]metav1.Object)
	}
	o[resource][key] = x
}

// referenceCount is the number of objects that a cluster keeps.
func (o objects) referenceCount(resource string) (n int) {
	for _, x := range o[resource] {
		if s, ok := x.(*decode.Server); !ok || s.Invalid != "" || s.Spec.ProxyProtocol == "opaque" {
			n++
		}
	}
	return n
}

// referenceRead joins from scratch, straight from the objects.
func (o objects) referenceRead(
	service string,
	port uint16,
) (state federation.ServiceState, nodeLocal bool, parts map[string][]string) {
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
		if list := o.referenceSlice(x, svc, port); len(list) > 0 {
			parts[key] = list
		}
	}
	return federation.Present, nodeLocal, parts
}

// declares reports whether a Service declares a port for TCP.
func (o objects) declares(service string, port uint16) bool {
	svc := o["services"]["ns/"+service].(*corev1.Service)
	return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Port == int32(port) && referenceTCP(p.Protocol)
	})
}

func referenceTCP(p corev1.Protocol) bool { return p == "" || p == "TCP" }

// referenceSliceService returns the name of a slice's Service.
func referenceSliceService(x metav1.Object) (l *discoveryv1.EndpointSlice, name string) {
	l = x.(*discoveryv1.EndpointSlice)
	name = l.Labels["kubernetes.io/service-name"]
	for _, owner := range l.OwnerReferences {
		if name == "" && owner.Kind == "Service" {
			name = owner.Name
		}
	}
	return l, name
}

func (o objects) referenceSlice(x metav1.Object, svc *corev1.Service, port uint16) []string {
	l, name := referenceSliceService(x)
	if name != svc.Name || l.AddressType == "FQDN" || len(l.Ports) == 0 {
		return nil
	}
	number := int32(port)
	for _, p := range svc.Spec.Ports {
		if p.Port != int32(port) || !referenceTCP(p.Protocol) {
			continue
		}
		number = 0
		for _, q := range l.Ports {
			if q.Name != nil && *q.Name == p.Name && number == 0 && q.Port != nil &&
				(q.Protocol == nil || referenceTCP(*q.Protocol)) {
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
			if text, ok := o.referenceEndpoint(e, name, fmt.Sprintf("%s:%d", ip, number)); ok {
				seen[ip] = text
			}
		}
	}
	var list []string
	for _, text := range seen {
		list = append(list, text)
	}
	sort.Strings(list)
	return append(list, referenceUnready(l, number, seen)...)
}

// referenceUnready describes the addresses of a slice that are not ready, nor served.
func referenceUnready(l *discoveryv1.EndpointSlice, port int32, served map[string]string) []string {
	byIP := make(map[string]string)
	for _, e := range l.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready ||
			e.Conditions.Terminating != nil && *e.Conditions.Terminating {
			continue
		}
		kind, twin, zone, node, host := "address", "", "", "", ""
		if e.TargetRef != nil {
			switch e.TargetRef.Kind {
			case "Pod":
				kind, twin = "pod", " twin=ns/"+e.TargetRef.Name
			case "ExternalWorkload":
				kind, twin = "workload", " twin=workload/ns/"+e.TargetRef.Name
			default:
				continue
			}
		}
		if e.Zone != nil {
			zone = " zone=" + *e.Zone
		}
		if e.NodeName != nil && kind == "pod" {
			node = " node=" + *e.NodeName
		}
		if e.Hostname != nil {
			host = " host=" + *e.Hostname
		}
		for _, ip := range e.Addresses {
			if _, ok := byIP[ip]; !ok && served[ip] == "" {
				byIP[ip] = fmt.Sprintf("unready %s %s:%d", kind, ip, port) + zone + node + host + twin
			}
		}
	}
	var list []string
	for _, ip := range slices.Sorted(maps.Keys(byIP)) {
		list = append(list, byIP[ip])
	}
	return list
}

func (o objects) referenceEndpoint(e discoveryv1.Endpoint, service, addr string) (string, bool) {
	head, zone, host, hints := addr+" namespace:ns service:"+service, "", "", ""
	if e.Hints != nil && len(e.Hints.ForZones) > 0 {
		var zones []string
		for _, z := range e.Hints.ForZones {
			zones = append(zones, z.Name)
		}
		sort.Strings(zones)
		hints = " hints=" + strings.Join(zones, "+")
	}
	if e.Hostname != nil {
		host = " host=" + *e.Hostname
	}
	if e.Zone != nil {
		zone = " zone=" + *e.Zone
	}
	if e.TargetRef == nil {
		return head + zone + host + hints, true
	}
	if w, ok := o["externalworkloads"]["ns/"+e.TargetRef.Name].(*decode.ExternalWorkload); ok &&
		e.TargetRef.Kind == "ExternalWorkload" {
		return o.referenceWorkload(w, addr).text(head, zone, host, hints), w.Invalid == ""
	}
	if p, ok := o["pods"]["ns/"+e.TargetRef.Name].(*corev1.Pod); ok && e.TargetRef.Kind == "Pod" {
		return o.referencePod(p, addr).text(head, zone, host, hints), true
	}
	return "", false
}

// referenceFacts are the fields that an endpoint takes from its Pod or ExternalWorkload.
type referenceFacts struct {
	labels           map[string]string
	node, twin, rest string
}

func (f referenceFacts) text(head, zone, host, hints string) string {
	for _, name := range slices.Sorted(maps.Keys(f.labels)) {
		head += " " + name + ":" + f.labels[name]
	}
	return head + zone + f.node + host + " twin=" + f.twin + hints + f.rest
}

func (o objects) referencePod(p *corev1.Pod, addr string) referenceFacts {
	f := referenceFacts{
		labels: map[string]string{"pod": p.Name, "serviceaccount": "default"},
		node:   " node=" + p.Spec.NodeName,
		twin:   "ns/" + p.Name,
	}
	plane := p.Labels[controlPlaneLabel]
	if plane == "linkerd" {
		id := "default.ns.serviceaccount.identity.linkerd.cluster.local"
		f.rest = " id=" + id + " sni=" + id
	}
	meshed := plane != ""
	if meshed {
		f.labels["control_plane_ns"] = plane
		f.rest += " meshed"
	}
	if len(p.OwnerReferences) == 1 {
		owner := p.OwnerReferences[0]
		f.labels[strings.ToLower(owner.Kind)] = owner.Name
		if rs, ok := o["replicasets"]["ns/"+owner.Name].(*metav1.PartialObjectMetadata); ok &&
			owner.Kind == "ReplicaSet" &&
			len(rs.OwnerReferences) == 1 {
			delete(f.labels, "replicaset")
			f.labels["deployment"] = rs.OwnerReferences[0].Name
		}
	}
	var ports []corev1.ContainerPort
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		ports = append(ports, c.Ports...)
	}
	policed := o.referencePolicy(
		p.Labels,
		func(s decode.ServerSpec) *metav1.LabelSelector { return s.PodSelector },
		func(port intstr.IntOrString) bool {
			return slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool {
				return referenceTCP(p.Protocol) && p.Name == port.StrVal &&
					(hasPort(addr, p.ContainerPort) || hasPort(addr, p.HostPort))
			})
		},
		addr,
	)
	if strings.HasSuffix(addr, ":25") || policed {
		f.rest += " opaque"
	}
	if meshed {
		f.rest += " inbound=4143"
	}
	return f
}

func (o objects) referenceWorkload(w *decode.ExternalWorkload, addr string) referenceFacts {
	f := referenceFacts{labels: map[string]string{"external_workload": w.Name}, twin: "workload/ns/" + w.Name}
	if len(w.OwnerReferences) == 1 {
		f.labels[strings.ToLower(w.OwnerReferences[0].Kind)] = w.OwnerReferences[0].Name
	}
	inbound, annotated := int32(4143), false
	list, ok := w.Annotations[opaqueAnnotation]
	for _, p := range w.Spec.Ports {
		if !referenceTCP(corev1.Protocol(p.Protocol)) {
			continue
		}
		if p.Name == "linkerd-proxy" {
			inbound = p.Port
		}
		annotated = annotated || p.Name == list && hasPort(addr, p.Port)
	}
	if !ok {
		annotated = strings.HasSuffix(addr, ":25")
	}
	policed := o.referencePolicy(
		w.Labels,
		func(s decode.ServerSpec) *metav1.LabelSelector { return s.ExternalWorkloadSelector },
		func(port intstr.IntOrString) bool {
			return slices.ContainsFunc(w.Spec.Ports, func(p decode.PortSpec) bool {
				return referenceTCP(corev1.Protocol(p.Protocol)) && p.Name == port.StrVal && hasPort(addr, p.Port)
			})
		},
		addr,
	)
	f.rest = " uri=" + w.Spec.MeshTLS.Identity + " sni=" + w.Spec.MeshTLS.ServerName + " meshed"
	if annotated || policed {
		f.rest += " opaque"
	}
	f.rest += fmt.Sprint(" inbound=", inbound)
	return f
}

func hasPort(addr string, port int32) bool { return strings.HasSuffix(addr, fmt.Sprintf(":%d", port)) }

// referencePolicy reports whether a Server of namespace ns makes the port opaque.
func (o objects) referencePolicy(
	labels map[string]string,
	selector func(decode.ServerSpec) *metav1.LabelSelector,
	named func(intstr.IntOrString) bool,
	addr string,
) bool {
	for _, x := range o["servers"] {
		s := x.(*decode.Server)
		of := selector(s.Spec)
		if s.Invalid != "" || s.Namespace != "ns" || s.Spec.ProxyProtocol != "opaque" || of == nil ||
			len(of.MatchExpressions) > 0 {
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
