package sim

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"isthmus/e2e/harness/kube"
)

const namespace = "sim" // of all objects except Secrets and Nodes

// objects holds the objects of a cluster's API server, by name. The objects are immutable.
type objects struct {
	services    map[string]*corev1.Service
	slices      map[string]*discoveryv1.EndpointSlice
	pods        map[string]*corev1.Pod
	replicaSets map[string]*appsv1.ReplicaSet
	servers     map[string]*unstructured.Unstructured
	profiles    map[string]*unstructured.Unstructured // ServiceProfiles
	nodes       map[string]*corev1.Node
}

func newObjects() objects {
	return objects{map[string]*corev1.Service{}, map[string]*discoveryv1.EndpointSlice{}, map[string]*corev1.Pod{},
		map[string]*appsv1.ReplicaSet{}, map[string]*unstructured.Unstructured{},
		map[string]*unstructured.Unstructured{},
		map[string]*corev1.Node{}}
}

// set records an object that was put or, if there is false, deleted. Secrets are recorded in link.
func (o *objects) set(obj runtime.Object, there bool) {
	switch obj := obj.(type) {
	case *corev1.Service:
		note(o.services, obj, there)
	case *discoveryv1.EndpointSlice:
		note(o.slices, obj, there)
	case *corev1.Pod:
		note(o.pods, obj, there)
	case *corev1.Node:
		note(o.nodes, obj, there)
	case *appsv1.ReplicaSet:
		note(o.replicaSets, obj, there)
	case *unstructured.Unstructured:
		if obj.GetKind() == "Server" {
			note(o.servers, obj, there)
		} else {
			note(o.profiles, obj, there)
		}
	}
}

func note[O metav1.Object](all map[string]O, o O, there bool) {
	if there {
		all[o.GetName()] = o
	} else {
		delete(all, o.GetName())
	}
}

// slicesOf returns the slices of a service, sorted by name.
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

// named returns the objects whose names begin with prefix, sorted.
func named[O any](all map[string]O, prefix string) []O {
	var list []O
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, prefix) {
			list = append(list, all[name])
		}
	}
	return list
}

func newService(name string) *corev1.Service { return headless(kube.Service(namespace, name)) }

// headless makes o headless and returns it, since the simulated API server assigns no cluster IPs.
func headless(o *corev1.Service) *corev1.Service {
	o.Spec.ClusterIP = corev1.ClusterIPNone
	return o
}

func newEndpoint(ip, pod, zone string) discoveryv1.Endpoint {
	e := kube.PodEndpoint(ip, namespace, pod)
	e.Zone = &zone
	return e
}

// look describes how the Pods of a service differ.
type look struct {
	meshed bool
	silent bool // the proxy has no variables that give its ports
	opaque string
	owner  metav1.OwnerReference
	hash   string // if empty, the Pod has no hash label
}

func newPod(name, service string, l look) *corev1.Pod {
	o := kube.Pod(namespace, name, service+"-account")
	o.Labels = map[string]string{"app": service}
	if l.owner.Kind != "" {
		o.OwnerReferences = []metav1.OwnerReference{l.owner}
	}
	if l.hash != "" {
		o.Labels[kube.HashLabel] = l.hash
	}
	if l.opaque != "" {
		o.Annotations = map[string]string{kube.OpaquePorts: l.opaque}
	}
	if l.meshed {
		kube.Mesh(o)
		if l.silent {
			o.Spec.Containers[1].Env = nil
		}
	}
	return o
}

// newProfile returns a ServiceProfile with routes for a Service.
func newProfile(service string, routes []string) *unstructured.Unstructured {
	var list []any
	for _, route := range routes {
		list = append(list, map[string]any{"name": route, "condition": map[string]any{"pathRegex": route}})
	}
	return kube.ServiceProfile(namespace, service, list...)
}

// fullName returns the DNS name of a Service.
func fullName(service string) string { return kube.FullName(namespace, service) }
