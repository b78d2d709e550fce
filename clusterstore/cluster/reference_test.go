package cluster

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
	"isthmus/internal/spec"
)

// events generates random events in random order.
type events struct {
	*world
	all       objects // existing objects
	draw      func(t *rapid.T, resource string) (key string, o metav1.Object)
	resources []string // resources of the events; a resource that is listed twice is twice as frequent
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

// run generates events and checks the cluster after each event. At the end, it deletes all objects.
func (e *events) run(t *rapid.T, check func(*rapid.T)) {
	for _, name := range []string{"services", "pods", "endpointslices", "servers", "pods", "externalworkloads",
		"endpointslices", "servers"} {
		e.put(t, name) // so that most events change an existing object
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

// objects has all objects by resource and key. The reference reads them.
type objects map[string]map[string]metav1.Object

func (o objects) set(resource, key string, x metav1.Object) {
	if o[resource] == nil {
		o[resource] = make(map[string]metav1.Object)
	}
	o[resource][key] = x
}

// referenceCount returns the number of objects that a cluster caches.
func (o objects) referenceCount(resource string) (n int) {
	for _, x := range o[resource] {
		if s, ok := x.(*decode.Server); !ok || s.Invalid != "" || s.Spec.ProxyProtocol == "opaque" {
			n++
		}
	}
	return n
}

// namespace returns the objects in namespace ns, as package spec reads them.
func (o objects) namespace() *spec.Namespace {
	n := &spec.Namespace{
		Name: "ns",
		Mesh: spec.Mesh{
			TrustDomain:         testConfig().TrustDomain,
			ControllerNamespace: testRules.ControllerNamespace,
			OpaquePorts:         []uint16{25, 3306},
		},
		Services:       byName[*corev1.Service](o["services"]),
		EndpointSlices: byName[*discoveryv1.EndpointSlice](o["endpointslices"]),
		Pods:           byName[*corev1.Pod](o["pods"]),
		ReplicaSets:    byName[metav1.Object](o["replicasets"]),
		Servers:        make(map[string]spec.Server),
		Workloads:      make(map[string]spec.Workload),
	}
	for name, s := range byName[*decode.Server](o["servers"]) {
		n.Servers[name] = spec.Server{
			Pods:      s.Spec.PodSelector,
			Workloads: s.Spec.ExternalWorkloadSelector,
			Port:      s.Spec.Port,
			Opaque:    s.Spec.ProxyProtocol == decode.ProtocolOpaque,
			Invalid:   s.Invalid != "",
		}
	}
	for name, w := range byName[*decode.ExternalWorkload](o["externalworkloads"]) {
		n.Workloads[name] = modelledWorkload(w)
	}
	return n
}

// byName returns the objects in namespace ns by name.
func byName[O metav1.Object](all map[string]metav1.Object) map[string]O {
	named := make(map[string]O)
	for _, o := range all {
		if o.GetNamespace() == "ns" {
			named[o.GetName()] = o.(O)
		}
	}
	return named
}

func modelledWorkload(w *decode.ExternalWorkload) spec.Workload {
	made := spec.Workload{
		ObjectMeta: w.ObjectMeta,
		Identity:   w.Spec.MeshTLS.Identity,
		ServerName: w.Spec.MeshTLS.ServerName,
		Invalid:    w.Invalid != "",
	}
	for _, p := range w.Spec.Ports {
		made.Ports = append(made.Ports, corev1.ServicePort{
			Name:     p.Name,
			Port:     p.Port,
			Protocol: corev1.Protocol(p.Protocol),
		})
	}
	return made
}

var kindWords = map[federation.Kind]string{
	federation.Address:  "",
	federation.Pod:      "Pod",
	federation.Workload: "ExternalWorkload",
}

// modelled returns an endpoint in the form that package spec computes.
func modelled(e *federation.Endpoint) spec.Backend {
	common := e.Common.Get()
	b := spec.Backend{
		Addr:        e.Addr,
		Kind:        kindWords[e.Kind],
		Target:      e.Twin[strings.LastIndex(e.Twin, "/")+1:],
		Zone:        e.Zone,
		Node:        e.Node,
		Hostname:    e.Hostname,
		Zones:       e.Hints.Zones(),
		DNS:         common.Identity.DNS,
		URI:         common.Identity.URI,
		ServerName:  common.Identity.ServerName,
		Meshed:      e.Meshed,
		Opaque:      e.Opaque,
		InboundPort: e.InboundPort,
	}
	if e.Common == nil {
		return b // an endpoint that is not ready
	}
	b.Labels = make(map[string]string)
	for _, l := range slices.Concat(common.Group, common.Labels) {
		b.Labels[l.Name] = l.Value
	}
	if l, ok := e.NameLabel(); ok {
		b.Labels[l.Name] = l.Value
	}
	return b
}

// modelledSlice returns a slice in the form that package spec computes.
func modelledSlice(l *federation.Slice) spec.BackendSlice {
	made := spec.BackendSlice{Name: strings.TrimPrefix(l.Name, "ns/")}
	for _, e := range l.Endpoints {
		made.Ready = append(made.Ready, modelled(e))
	}
	for _, e := range l.Unready {
		made.Unready = append(made.Unready, modelled(e))
	}
	return made
}
