package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	namespace     = "sim"     // of all but Secrets and Nodes
	linkNamespace = "linkerd" // the control plane's

	servicePort = 80
	portName    = "http"

	meshLabel  = "linkerd.io/control-plane-ns"
	hashLabel  = "pod-template-hash"
	opaquePort = "config.linkerd.io/opaque-ports"

	localDiscovery  = "multicluster.linkerd.io/local-discovery"
	remoteDiscovery = "multicluster.linkerd.io/remote-discovery"
	remoteService   = "multicluster.linkerd.io/remote-service"
)

// objects are what a cluster's API server holds, by name. An object is never changed once it is in here.
type objects struct {
	services    map[string]*corev1.Service
	slices      map[string]*discoveryv1.EndpointSlice
	pods        map[string]*corev1.Pod
	replicaSets map[string]*appsv1.ReplicaSet
	servers     map[string]*unstructured.Unstructured
}

func newObjects() objects {
	return objects{map[string]*corev1.Service{}, map[string]*discoveryv1.EndpointSlice{}, map[string]*corev1.Pod{},
		map[string]*appsv1.ReplicaSet{}, map[string]*unstructured.Unstructured{}}
}

// set notes an object that has been put, or (not there) deleted. Objects that follow from nothing else, as Nodes and
// Secrets, are not noted.
func (o *objects) set(obj runtime.Object, there bool) {
	switch obj := obj.(type) {
	case *corev1.Service:
		note(o.services, obj, there)
	case *discoveryv1.EndpointSlice:
		note(o.slices, obj, there)
	case *corev1.Pod:
		note(o.pods, obj, there)
	case *appsv1.ReplicaSet:
		note(o.replicaSets, obj, there)
	case *unstructured.Unstructured:
		note(o.servers, obj, there)
	}
}

func note[O metav1.Object](all map[string]O, o O, there bool) {
	if there {
		all[o.GetName()] = o
	} else {
		delete(all, o.GetName())
	}
}

// slicesOf returns the slices of a service, in order of their names.
func (o *objects) slicesOf(service string) []*discoveryv1.EndpointSlice {
	var list []*discoveryv1.EndpointSlice
	for _, l := range o.slices {
		if l.Labels[discoveryv1.LabelServiceName] == service {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// named returns the objects whose names begin so, in order.
func named[O any](all map[string]O, prefix string) []O {
	var list []O
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, prefix) {
			list = append(list, all[name])
		}
	}
	return list
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func newService(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: meta(name), Spec: corev1.ServiceSpec{
		ClusterIP: "None", Ports: []corev1.ServicePort{{Name: portName, Port: servicePort}},
	}}
}

func newSlice(service string, number int) *discoveryv1.EndpointSlice {
	l := &discoveryv1.EndpointSlice{
		ObjectMeta:  meta(fmt.Sprintf("%s-%03d", service, number)),
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(portName), Port: new(int32(8080))}},
	}
	l.Labels = map[string]string{discoveryv1.LabelServiceName: service, "endpointslice.kubernetes.io/managed-by": "sim"}
	return l
}

func newEndpoint(pod, ip, zone string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{ip}, Zone: &zone, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod},
	}
}

// look is what Pods of a service can differ in.
type look struct {
	meshed bool
	silent bool // its proxy does not say where it listens
	opaque string
	owner  metav1.OwnerReference
	hash   string // empty: none
}

func newPod(name, service string, l look) *corev1.Pod {
	o := &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{
		NodeName: "node-1", ServiceAccountName: service + "-account",
		Containers: []corev1.Container{{Name: "app", Image: "none"}},
	}}
	o.Labels = map[string]string{"app": service}
	if l.owner.Kind != "" {
		o.OwnerReferences = []metav1.OwnerReference{l.owner}
	}
	if l.hash != "" {
		o.Labels[hashLabel] = l.hash
	}
	if l.opaque != "" {
		o.Annotations = map[string]string{opaquePort: l.opaque}
	}
	if !l.meshed {
		return o
	}
	o.Labels[meshLabel] = linkNamespace
	proxy := corev1.Container{Name: "linkerd-proxy", Image: "none"}
	if !l.silent {
		proxy.Env = []corev1.EnvVar{
			{Name: "LINKERD2_PROXY_INBOUND_LISTEN_ADDR", Value: "0.0.0.0:4143"},
			{Name: "LINKERD2_PROXY_ADMIN_LISTEN_ADDR", Value: "0.0.0.0:4191"},
			{Name: "LINKERD2_PROXY_CONTROL_LISTEN_ADDR", Value: "0.0.0.0:4190"},
		}
	}
	o.Spec.Containers = append(o.Spec.Containers, proxy)
	return o
}

func newReplicaSet(name, deployment string) *appsv1.ReplicaSet {
	o := &appsv1.ReplicaSet{ObjectMeta: meta(name)}
	o.OwnerReferences = []metav1.OwnerReference{owner("Deployment", deployment)}
	return o
}

func owner(kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "1"}
}

// newServer makes a port of all Pods of a service opaque.
func newServer(service string, port int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server",
		"metadata": map[string]any{"namespace": namespace, "name": service},
		"spec": map[string]any{
			"port": port, "proxyProtocol": "opaque",
			"podSelector": map[string]any{"matchLabels": map[string]any{"app": service}},
		},
	}}
}

func newNode(name, zone string) *corev1.Node {
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.Labels = map[string]string{"topology.kubernetes.io/zone": zone}
	return o
}
